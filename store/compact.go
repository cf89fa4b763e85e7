package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// compactFrom is the minimum size in bytes of a file that Open compacts, without pages that were never used. A smaller
// file is not worth the time.
const compactFrom = 8 << 20

// compactPiece is the approximate number of bytes of records that one transaction of a compaction copies.
const compactPiece = 4 << 20

// A Compaction is the result of the compaction of a store's file. Before and After are the sizes of the file in
// bytes. If Err is not nil, the file was not compacted.
type Compaction struct {
	Before, After int64
	Err           error
}

// Compaction returns the result of the compaction that Open does if most pages of the file are free; nil if the file
// did not need compaction.
func (db *DB) Compaction() *Compaction { return db.compaction }

// Compact replaces the file of the store at path with a new file that has the same records and few free pages. After a
// crash, the file at path is either the old or the new one. Compact returns ErrLocked, ErrCorrupt, ErrNotStore, ErrFull
// or an error of the file system. After an error, the records of the store are unchanged.
func Compact(path string, o Options) (Compaction, error) {
	f, err := lock(path, os.O_RDWR, o.wait())
	if err != nil {
		return Compaction{}, openError(path, err)
	}
	b, err := openBolt(f, false)
	if err != nil {
		return Compaction{}, openError(path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return Compaction{}, errors.Join(err, b.Close())
	}
	compact, err := b.compact(path)
	if err != nil {
		return Compaction{}, errors.Join(fmt.Errorf("store: compact %s: %w", path, err), b.Close())
	}
	c := Compaction{Before: info.Size()}
	if info, err = os.Stat(path); err == nil {
		c.After = info.Size()
	}
	return c, errors.Join(err, compact.Close())
}

// mostlyFree reports whether the file is worth a compaction: the pages that it has ever used have at least
// compactFrom bytes in total, and less than half of them are in use.
func (v *verifier) mostlyFree() bool {
	size := int64(v.meta.pageSize)
	high := int64(v.meta.high) //nolint:gosec // the number fits in an int64, because no page is outside of the file
	return high*size >= compactFrom && v.used < high/2
}

// compactIfFree compacts the file at path if most of its pages are free, and returns the backend to use. If the file
// cannot be compacted, compactIfFree returns b and a Compaction with the error. The result of type error is nil except
// in one case: the compacted file has replaced the old file, but a crash may undo the replacement.
func (b *bolt) compactIfFree(path string) (*bolt, *Compaction, error) {
	if !b.free {
		return b, nil, nil
	}
	c := &Compaction{}
	if info, err := os.Stat(path); err == nil {
		c.Before = info.Size()
	}
	compact, err := b.compact(path)
	if errors.Is(err, errNotDurable) {
		return nil, nil, errors.Join(err, b.Close())
	}
	if err != nil {
		c.Err = err
		return b, c, nil //nolint:nilerr // the caller logs c.Err; the file is used as it is
	}
	if info, err := os.Stat(path); err == nil {
		c.After = info.Size()
	}
	return compact, c, nil
}

// errNotDurable means that the compacted file was renamed, but a crash may undo the rename.
var errNotDurable = errors.New("the directory could not be synced after the file was replaced")

// compact copies the records of b to a new file, renames the new file to path, and closes b. If path is a symbolic
// link, the new file replaces the file to which the link leads. compact returns the backend of the new file. If compact
// returns an error, b stays open. Unless this error is errNotDurable, the file at path is still the file of b.
func (b *bolt) compact(path string) (*bolt, error) {
	path, err := target(path)
	if err != nil {
		return nil, err
	}
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+".compact") // only the process that holds the lock of the store uses this name
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fullOr(err)
	}
	if err := ownAs(f, path); err != nil {
		return nil, errors.Join(err, f.Close(), remove(temp))
	}
	compact, err := b.copyInto(f)
	if err != nil {
		return nil, errors.Join(fullOr(err), remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, errors.Join(err, compact.Close(), remove(temp))
	}
	if err := syncDir(filepath.Clean(dir + ".")); err != nil {
		return nil, errors.Join(errNotDurable, err, compact.Close())
	}
	compact.ballast = b.ballast
	_ = b.Close() // an error does not matter, because the new file has replaced the old one
	return compact, nil
}

// ownAs gives f the owner of the file at path if this process runs as root. So if a person runs a command as root, the
// operator, which runs as that owner, can still open the store.
func ownAs(f *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}
	return f.Chown(int(stat.Uid), int(stat.Gid))
}

// copyInto creates a store with b's records in the empty file f. The new store is locked, verified and durable. If
// copyInto returns an error, f is closed.
func (b *bolt) copyInto(f *os.File) (*bolt, error) {
	if err := flock(f, unix.LOCK_EX, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	db, err := bbolt.Open(f.Name(), 0o600, boltOptions(f, false))
	if err != nil {
		_ = f.Close() // because bbolt may have closed it already
		return nil, err
	}
	db.NoSync = true // one sync after all records are copied is enough
	copied, err := b.copyRecords(db)
	if err == nil {
		err = db.Sync()
	}
	db.NoSync = false
	var verified *verifier
	if err == nil {
		verified, err = verifyCopy(f, copied)
	}
	var c *bolt
	if err == nil {
		c, err = newBoltOver(db, f, verified)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return c, nil
}

// verifyCopy verifies the copy in f. It returns an error if the copy does not have the given number of
// records.
func verifyCopy(f *os.File, records int) (*verifier, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	v, err := inspectBolt(f, info.Size())
	if err == nil && v.records != records {
		err = fmt.Errorf("%d of %d records were copied", v.records, records)
	}
	return v, err
}

// copyRecords copies all records to another file, in transactions of bounded size, and returns the number of records.
// It adds a checksum to each record that should have a checksum but has none.
func (b *bolt) copyRecords(to *bbolt.DB) (records int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("%v", p)
		}
	}()
	return records, b.db.View(func(from *bbolt.Tx) error {
		c := from.Bucket(bucket).Cursor()
		for k, v := c.First(); ; {
			if err := to.Update(func(tx *bbolt.Tx) error {
				bk, err := tx.CreateBucketIfNotExists(bucket)
				if err != nil {
					return err
				}
				bk.FillPercent = fillPercent
				for size := 0; k != nil && size < compactPiece; k, v = c.Next() {
					if len(v) > 0 && v[0] != sealMark && unsealed(Key(k).Table(), v[0]) {
						v = seal(make([]byte, 0, sealSize+len(v)), k, v)
					}
					if err := bk.Put(k, v); err != nil {
						return err
					}
					records++
					size += len(k) + len(v)
				}
				return nil
			}); err != nil || k == nil {
				return err
			}
		}
	})
}
