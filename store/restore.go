package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOtherStore means that the snapshot was not made from the store that it would replace.
var ErrOtherStore = errors.New("snapshot is of another store")

// RestoreOptions say how to restore a snapshot.
type RestoreOptions struct {
	Options
	// OtherStore allows a snapshot that was made from another store than the present one.
	OtherStore bool
	// DryRun changes nothing.
	DryRun bool
}

// A Restoration describes the result of restoring a snapshot; for a dry run, the expected result.
type Restoration struct {
	// ID is the id of the snapshot's store, and Epoch is the epoch in which the snapshot was made.
	ID    string
	Epoch uint64
	// Damaged is the number of records in the snapshot whose checksums do not match. At most 100 of them
	// are counted.
	Damaged int
	// Lost is the span from the creation of the snapshot to the last write of the present file. If
	// there is no present file, or if its last write was before the creation of the snapshot, the span
	// ends at the time of the restore.
	Lost LostSpan
	// Kept has the number of records of each table that are restored. Dropped has the number of records
	// of each table that are not restored, because they are pending work.
	Kept, Dropped []TableCount
	// Present is the id of the present store; empty if there is none, or if it cannot be read. Unreadable is the reason
	// why it cannot be read.
	Present    string
	Unreadable error
	// Aside is the new name of the present file; empty if there is none. A dry run does not choose
	// the name.
	Aside string
	// Replaces is set if there is a present file.
	Replaces bool
	// Before is set if an earlier call has restored this snapshot already, and no operator has
	// worked with the restored store.
	Before bool
	// Bytes is the size of the snapshot; the restored file is hardly larger. Free is the number of
	// free bytes in the file system of the store.
	Bytes int64
	Free  uint64
}

// A TableCount is the number of records of a table.
type TableCount struct {
	Table   Table
	Records int
}

// Restore replaces the store at path with the snapshot. If a process uses the store, Restore returns ErrLocked. The
// restored store has all records of the snapshot except pending work, and is marked as a copy. Restore does not change
// the content of the present file, but gives the file another name. After a crash, either the present file or the
// restored one is at path, and the next call finishes the work. If path is a symbolic link, the file to which it leads
// is the present file. The error is ErrOtherStore, or one of the errors of Open.
func Restore(path, snapshot string, o RestoreOptions) (*Restoration, error) {
	r := &restore{path: path, snapshot: snapshot, options: o}
	if err := r.isOther(); err != nil {
		return nil, err
	}
	var err error
	if r.place, err = target(path); err != nil {
		return nil, fmt.Errorf("store: restore to %s: %w; give the path of the store", path, err)
	}
	from, err := r.openSnapshot()
	if err != nil {
		return nil, err
	}
	present, err := r.lockPresent()
	if present != nil {
		defer present.Close()
	}
	switch {
	case err != nil:
	case r.Before:
		err = syncDir(filepath.Dir(r.place)) // the earlier call may have been killed before its own sync
	case !o.DryRun:
		err = r.replace(from, present)
	}
	return &r.Restoration, errors.Join(err, from.Close())
}

// A restore is the state of one call of Restore.
type restore struct {
	Restoration
	path, snapshot string
	// place is the path at which the restored store is put: the target of path.
	place   string
	options RestoreOptions
	// minEpoch is the greatest epoch in the present store and in the note of clean exits. The restored store gets a
	// later epoch, so that the note never has the epoch of one of its processes by mistake.
	minEpoch uint64
}

// openSnapshot opens and describes the snapshot.
func (r *restore) openSnapshot() (*DB, error) {
	from, err := openReadOnly(r.snapshot, r.options.Options)
	if err != nil {
		return nil, snapshotError(r.snapshot, err)
	}
	if err := r.describe(from); err != nil {
		return nil, errors.Join(snapshotError(r.snapshot, err), from.Close())
	}
	return from, nil
}

// snapshotError adds to err the path of the snapshot and advice for the user.
func snapshotError(path string, err error) error {
	advice := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		advice = "; give the path of a snapshot, such as FILE.snapshot-… beside the store"
	case errors.Is(err, ErrLocked):
		advice = "; it is the store of a running operator: make a snapshot of it with addon-operator store snapshot, and restore that"
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNotStore):
		advice = "; restore another snapshot, nothing was changed"
	case errors.Is(err, ErrNewer):
		advice = "; use that version of the operator or a later one, or restore an older snapshot"
	}
	return fmt.Errorf("store: restore the snapshot %s: %w%s", path, err, advice)
}

// describe sets the fields of the Restoration that describe the snapshot, such as its epoch and the
// numbers of its records.
func (r *restore) describe(from *DB) error {
	info, err := os.Stat(r.snapshot)
	if err != nil {
		return err
	}
	damaged, err := from.Damaged()
	if err != nil {
		return err
	}
	r.ID, r.Epoch, r.Damaged, r.Bytes = from.ID(), from.Epoch(), len(damaged), info.Size()
	return from.View(func(tx *Tx) error {
		mark, marked, err := Load[Copy](tx, CopyKey())
		if damaged := (*RecordError)(nil); err != nil && !errors.As(err, &damaged) {
			return err
		}
		if err != nil || !marked {
			mark = Copy{Epoch: r.Epoch, At: info.ModTime().Round(0).UTC()}
		}
		mark.Restored, mark.Until = filepath.Base(r.snapshot), time.Time{}
		r.Epoch, r.Lost = mark.Epoch, *mark.Lost()
		for t := range tables {
			r.count(tx, Table(t))
		}
		return nil
	})
}

// count counts the records of a table of the snapshot.
func (r *restore) count(tx *Tx, t Table) {
	kept, dropped := 0, 0
	for k := range tx.Range(At(t)) {
		if tables[t].work && !isPause(tx, k) {
			dropped++
		} else {
			kept++
		}
	}
	if kept > 0 {
		r.Kept = append(r.Kept, TableCount{t, kept})
	}
	if dropped > 0 {
		r.Dropped = append(r.Dropped, TableCount{t, dropped})
	}
}

// lockPresent locks the present file, so that no operator starts with it, and sets the fields of r
// that describe the file. lockPresent returns nil if there is no file.
func (r *restore) lockPresent() (*os.File, error) {
	var err error
	if r.Free, err = FreeBytes(r.place); err != nil {
		return nil, fmt.Errorf("store: restore to %s: %w; give the path of the store", r.path, err)
	}
	r.Lost.To = r.options.clock()().Round(0).UTC()
	for _, epoch := range (exitsFile{r.path + ".clean-exits"}).read() {
		r.minEpoch = max(r.minEpoch, epoch)
	}
	db, err := openReadOnly(r.path, r.options.Options)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // there is no file
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer), errors.Is(err, ErrNotStore):
		r.Unreadable = err
	case err != nil:
		return nil, openError(r.path, err)
	default:
		if err := errors.Join(r.compare(db), db.Close()); err != nil {
			return nil, err
		}
	}
	f, err := lock(r.path, os.O_RDWR, r.options.wait())
	if err != nil {
		return nil, openError(r.path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return f, err
	}
	r.Replaces = true
	if written := info.ModTime().Round(0).UTC(); !r.Before && written.After(r.Lost.From) {
		r.Lost.To = written
	}
	return f, nil
}

// isOther returns an error if the snapshot is the present file itself.
func (r *restore) isOther() error {
	present, err1 := os.Stat(r.path)
	snapshot, err2 := os.Stat(r.snapshot)
	if err1 == nil && err2 == nil && os.SameFile(present, snapshot) {
		return fmt.Errorf("store: restore the snapshot %s: it is the store itself; give the path of a snapshot", r.snapshot)
	}
	return nil
}

// compare returns ErrOtherStore if the snapshot was not made from db, the present store, unless the
// option OtherStore is set. compare sets Before if db has already been restored from the snapshot.
func (r *restore) compare(db *DB) error {
	r.Present = db.ID()
	r.minEpoch = max(r.minEpoch, db.Epoch())
	var mark Copy
	err := db.View(func(tx *Tx) (err error) {
		mark, _, err = Load[Copy](tx, CopyKey())
		return err
	})
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if r.Present != r.ID && !r.options.OtherStore {
		return fmt.Errorf("store: restore the snapshot %s: %w: its id is %s, and %s has the id %s; restore a snapshot of this store, or allow the other one with --other-store",
			r.snapshot, ErrOtherStore, r.ID, r.path, r.Present)
	}
	if r.Present == r.ID && mark.Restored == filepath.Base(r.snapshot) && mark.Epoch == r.Epoch && mark.At.Equal(r.Lost.From) {
		r.Before, r.Lost.To = true, mark.Until
	}
	return nil
}

// replace creates the restored store in a temporary file and renames this file to r.place. present is
// the locked file at that path; nil if there is none.
func (r *restore) replace(from *DB, present *os.File) error {
	dir, base := filepath.Split(r.place)
	temp := filepath.Join(dir, "."+base+".restore")
	db, err := r.make(from, temp)
	if err == nil {
		err = r.name(temp, present)
		// The restored file stays locked until its new name is durable. If the file were unlocked
		// earlier, an operator could start with the file, and a crash could undo the rename.
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return fmt.Errorf("store: restore to %s: %w", r.path, errors.Join(restoreAdvice(err, r), remove(temp)))
	}
	return remove(temp)
}

// restoreAdvice adds to err advice for the user.
func restoreAdvice(err error, r *restore) error {
	if err = fullOr(err); errors.Is(err, ErrFull) {
		return fmt.Errorf("%w; free about %d bytes on its file system, nothing was changed", err, r.Bytes)
	}
	return err
}

// make creates the restored store in the file at temp. When make returns, the file at temp is
// durable and locked.
func (r *restore) make(from *DB, temp string) (*DB, error) {
	b, ok := from.backend.(*bolt)
	if !ok {
		return nil, errors.New("the snapshot is not a file")
	}
	f, err := claim(temp)
	if err != nil {
		return nil, err
	}
	if err := r.own(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	copied, err := b.copyInto(f)
	if err != nil {
		return nil, err
	}
	db := newDB(r.path, copied, r.options.Options)
	if err := r.dropPending(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// claim opens the file at temp, creates it if necessary, and locks it. claim never returns a file
// that has the name of a store as a second name.
func claim(temp string) (*os.File, error) {
	for {
		f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		// An earlier process may have given the file the name of the store, and then been killed
		// before it removed the name temp.
		named, err := namedTwice(f)
		if err == nil && named {
			if err = errors.Join(f.Close(), remove(temp)); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			if err = flock(f, unix.LOCK_EX, 0); errors.Is(err, ErrLocked) {
				err = fmt.Errorf("%w: it restores a snapshot; wait for its end", err)
			}
		}
		same := false
		if err == nil {
			same, err = isAt(f, temp)
		}
		if err == nil {
			named, err = namedTwice(f) // the process that had the lock may have given f the name of the store
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if same && !named {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// namedTwice reports whether the open file f has several names.
func namedTwice(f *os.File) (bool, error) {
	var stat unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &stat)
	return stat.Nlink > 1, err
}

// own empties the file f. If this process runs as root, own gives f the owner of the present file. If there is no
// present file, own gives f the owner of the snapshot.
func (r *restore) own(f *os.File) error {
	owned := r.path
	if !r.Replaces {
		owned = r.snapshot
	}
	return errors.Join(ownAs(f, owned), f.Truncate(0))
}

// dropPending upgrades the restored store, raises its epoch, drops its pending work, and marks it as a
// copy.
func (r *restore) dropPending(db *DB) error {
	if err := begin(db); err != nil {
		return err
	}
	if next := r.minEpoch + 1; next > db.identity.epoch {
		if err := db.backend.Commit(db.identity.epoch, []Write{{Key: epochKey(), Value: number(next)}}); err != nil {
			return err
		}
		db.identity.epoch = next
	}
	if err := dropPending(db.Update, r.Lost); err != nil {
		return err
	}
	return db.Update(func(tx *Tx) error {
		return Save(tx, CopyKey(), Copy{Epoch: r.Epoch, At: r.Lost.From, Restored: filepath.Base(r.snapshot), Until: r.Lost.To})
	})
}

// name gives the file at temp the name of the store. Before that, name gives the present file
// another name.
func (r *restore) name(temp string, present *os.File) (err error) {
	dir := filepath.Dir(r.place)
	if present == nil {
		if err := name(temp, r.place); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w; stop the operator that has created it, and run the command again", err)
		} else if err != nil {
			return err
		}
		return syncDir(dir)
	}
	if r.Aside, err = LinkAside(r.place, "replaced"); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.Rename(temp, r.place); err != nil {
		return err
	}
	return syncDir(dir)
}

// Beside returns the sorted paths of files in the directory of the store at path. Each of these paths begins with path,
// and the rest of it matches pattern, in the syntax of [filepath.Match]. Characters of path have no special meaning.
func Beside(path, pattern string) (found []string, err error) {
	dir, base := filepath.Split(path)
	files, err := os.ReadDir(filepath.Clean(dir + "."))
	for _, f := range files {
		rest, ok := strings.CutPrefix(f.Name(), base)
		if !ok {
			continue
		}
		matches, err := filepath.Match(pattern, rest)
		if err != nil {
			return nil, err
		}
		if matches {
			found = append(found, dir+f.Name())
		}
	}
	return found, err
}

// RemoveUnfinished removes the temporary files that killed calls of SnapshotFile have left in the directory of the
// store at path. It removes the files of snapshots whose name is the name of the store followed by a text that matches
// pattern. No call of SnapshotFile for such a snapshot may run meanwhile.
func RemoveUnfinished(path, pattern string) error {
	dir, base := filepath.Split(path)
	found, err := Beside(dir+"."+base, pattern+unfinished)
	for _, temp := range found {
		err = errors.Join(err, remove(temp))
	}
	return err
}

// LinkAside gives the file at path a second name, which consists of path, suffix and a number, and returns this name.
// If the file already has such a name, LinkAside returns that name. LinkAside never replaces another file.
func LinkAside(path, suffix string) (string, error) {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.%s.%d", path, suffix, n)
		err := link(path, aside)
		if err == nil {
			return aside, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("set the file aside: %w; move %s away by hand and repeat the command", err, path)
		}
		mine, err1 := os.Stat(path)
		other, err2 := os.Lstat(aside)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if os.SameFile(mine, other) {
			return aside, nil
		}
	}
}
