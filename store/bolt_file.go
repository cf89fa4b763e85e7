package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock opens the file at path and locks it: shared if flag is os.O_RDONLY, otherwise exclusively. If another process
// holds the lock, lock waits for it, because that process may be about to end. If the other process still holds the
// lock after the duration wait, the function returns ErrLocked.
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
		// Another file may have received this name during the wait.
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

// flock locks f. If the lock is held, also by another open file of this process, flock waits for at most the duration
// wait. It polls, because the system call can wait only forever or not at all.
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

// isAt reports whether f is the file at path. It returns ErrNotStore if f is not a regular file.
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

// create creates a new store at path. It writes a temporary file in the same directory, and links or
// renames it to path when it is complete and durable. So after a crash, the file at path is a complete
// store or does not exist.
func create(path string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*")
	if err != nil {
		return fullOr(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // after a rename, no file has the temporary name
	b, err := newBolt(f)
	if err != nil {
		return fullOr(err)
	}
	if err := errors.Join(b.Commit(0, newIdentity()), b.Close()); err != nil {
		return err
	}
	// If another process has created a store in the meantime, that store is used.
	if err := name(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fullOr(err)
	}
	return syncDir(dir)
}

// fullOr returns err, wrapped in ErrFull if the disk is full.
func fullOr(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// link gives a file a second name. A test replaces link, to simulate a file system without links.
var link = os.Link

// name links the file at temp to path. If it cannot be linked, for example because the file system does not support
// links, name renames it to path. If a file at path exists already, name does not replace it, and returns an error that
// wraps fs.ErrExist. On a file system that supports neither links nor RENAME_NOREPLACE, name looks for a file at path
// before the rename, and replaces a file that another process creates after that.
func name(temp, path string) error {
	err := link(temp, path) // unlike a rename, a link never replaces a file
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// Some file systems do not support this kind of rename either.
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(temp, path)
}

// target returns the path of the file to which path leads if path is a symbolic link; otherwise path itself. The file
// need not exist. A new file that replaces the store must be renamed to this path. A rename to the path of the link
// would replace the link, so that the store would be in the directory of the link.
func target(path string) (string, error) {
	const mostLinks = 40 // as in the kernel
	for range mostLinks {
		to, err := os.Readlink(path)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) { // EINVAL means that path is not a link
			return path, nil
		}
		if err != nil {
			return "", err
		}
		// If to begins with "..", and the directory of path is itself a link, Join would give the wrong directory.
		if from, _ := filepath.Split(path); !filepath.IsAbs(to) {
			to = from + to
		}
		dir, base := filepath.Split(to)
		if dir, err = filepath.EvalSymlinks(cmp.Or(dir, ".")); err != nil {
			return "", err
		}
		path = filepath.Join(dir, base)
	}
	return "", fmt.Errorf("%s: %w", path, unix.ELOOP)
}

// syncDir makes the creation and renaming of files in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A ballast is a file that reserves disk space. The store deletes the file when the disk is full,
// so that there is space for more commits. If size is 0, the store has no ballast.
type ballast struct {
	path string
	size int64
}

// fill creates the file. If the disk has no space for the file, fill leaves no file, and the store
// works without a ballast.
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

// FreeBytes returns the number of bytes that can still be written to the disk of the file at path. The
// directory of the file must exist. The file itself need not exist.
func FreeBytes(path string) (uint64, error) {
	dir := filepath.Dir(path)
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return disk.Bavail * uint64(disk.Bsize), nil //nolint:gosec // the size of a block is positive
}

// refill creates the file again, if the free space of the disk is more than four times the size of
// the file.
func (b ballast) refill() {
	if b.size <= 0 {
		return
	}
	if free, err := FreeBytes(b.path); err == nil && free > uint64(4*b.size) {
		b.fill()
	}
}

// free deletes the file.
func (b ballast) free() {
	if b.size > 0 {
		_ = os.Remove(b.path) // after a failure, the disk stays full, and the caller reports a full disk anyway
	}
}
