package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock opens the file at path and locks it: for reading beside others when
// flag is os.O_RDONLY, for nobody else otherwise. It waits as long as wait for
// a process that has the lock, as one that is just ending has.
func lock(path string, flag int, wait time.Duration) (*os.File, error) {
	how := unix.LOCK_EX
	if flag == os.O_RDONLY {
		how = unix.LOCK_SH
	}
	for {
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			return nil, err
		}
		if err := flock(f, how, wait); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The name may have got another file while the lock was waited for.
		same, err := isAt(f, path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if same {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// flock locks f. The system offers to wait for ever or not at all, so that a
// bounded wait has to ask again and again.
func flock(f *os.File, how int, wait time.Duration) error {
	const pause = 20 * time.Millisecond
	for ; ; wait -= pause {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return err
		case wait <= 0:
			return ErrLocked
		default:
			time.Sleep(pause)
		}
	}
}

// isAt reports whether f is the file at path.
func isAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if !mine.Mode().IsRegular() {
		return false, fmt.Errorf("%w: it is not a regular file", ErrNotStore)
	}
	return os.SameFile(mine, named), nil
}

// create makes a new store at path: in a file beside it, which gets its name
// when it is whole and on disk, so that a crash leaves a store or no file.
func create(path string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*")
	if err != nil {
		return fullOr(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // what was renamed is gone
	b, err := newBolt(f)
	if err != nil {
		return fullOr(err)
	}
	if err := errors.Join(b.Commit(0, newIdentity()), b.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return fullOr(err)
	}
	return syncDir(dir)
}

// fullOr returns err, as ErrFull when it says that there is no space.
func fullOr(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// name gives the file at temp the name path, unless there is one already.
func name(temp, path string) error {
	// Unlike a rename, a link never takes the place of a file.
	err := os.Link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// Some file systems have no links.
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(temp, path)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ballast is a file that takes space away until the disk is full, so that
// there is some to go on with. A size of zero is none.
type ballast struct {
	path string
	size int64
}

// fill makes the file. That there is no space for it is no reason not to go on.
func (b ballast) fill() {
	if b.size <= 0 {
		return
	}
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, b.size), f.Truncate(b.size), f.Close())
	if err != nil {
		b.free()
	}
}

// refill makes the file again, where that leaves much more room than it takes.
func (b ballast) refill() {
	var fs unix.Statfs_t
	if b.size <= 0 || unix.Statfs(filepath.Dir(b.path), &fs) != nil {
		return
	}
	if int64(fs.Bavail)*fs.Bsize > 4*b.size { //nolint:gosec // no file system is that large
		b.fill()
	}
}

// free gives the space back.
func (b ballast) free() {
	if b.size > 0 {
		_ = os.Remove(b.path) // without it the disk stays full, which the caller says anyway
	}
}
