package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// compactFrom is the minimum size in bytes of a file that is compacted when it is opened. A smaller
// file is not worth the time.
const compactFrom = 8 << 20

// compactPiece is the size in bytes of the records that one transaction copies.
const compactPiece = 4 << 20

// A Compaction is the result of compacting a store's file: the size of the file in bytes before and
// after. If Err is set, the file was not compacted.
type Compaction struct {
	Before, After int64
	Err           error
}

// Compaction returns the result of compacting the file when the store was opened. It returns nil if
// the file did not need compaction.
func (db *DB) Compaction() *Compaction { return db.compaction }

// Compact copies the store at path to a new file without free pages, which then replaces the old
// file. After a crash, the file is either the old or the new one. The errors are those of Open; after
// an error the store is unchanged.
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

// mostlyFree reports whether less than half of the pages that the file has ever used are in use.
func (v *verifier) mostlyFree() bool {
	size := int64(v.meta.pageSize)
	high := int64(v.meta.high) //nolint:gosec // the size fits, because the pages are within the file
	return high*size >= compactFrom && v.used < high/2
}

// compactIfFree compacts the file at path if most of its pages are free, and returns the backend to
// use. If the file cannot be compacted, this is b, and the Compaction has the error. An error is only
// returned if the compacted file has replaced the old one, but a crash may undo this.
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
		return b, c, nil //nolint:nilerr // the caller logs it; the file is used as it is
	}
	if info, err := os.Stat(path); err == nil {
		c.After = info.Size()
	}
	return compact, c, nil
}

// errNotDurable means that a file was renamed, but a crash may undo the rename.
var errNotDurable = errors.New("the directory could not be synced after the file was replaced")

// compact copies b to a new file, renames the new file to path, and closes b. It returns the backend
// of the new file. If an error occurs before the new file has the name path, b is unchanged.
func (b *bolt) compact(path string) (*bolt, error) {
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+".compact") // only the holder of the store's lock uses this name
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fullOr(err)
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
	_ = b.Close() // the old file has no name and no record that the new one does not have
	return compact, nil
}

// copyInto creates a store with b's records in the empty file f. The new store is locked, verified
// and durable. On an error f is closed.
func (b *bolt) copyInto(f *os.File) (*bolt, error) {
	if err := flock(f, unix.LOCK_EX, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	db, err := bbolt.Open(f.Name(), 0o600, boltOptions(f, false))
	if err != nil {
		_ = f.Close() // because bbolt may have closed it already
		return nil, err
	}
	db.NoSync = true // until all records are copied
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
		c, err = newBoltOver(db, verified)
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

// copyRecords copies all records to another file, in transactions of bounded size, and returns their
// number. It adds a checksum to each record that has none.
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
