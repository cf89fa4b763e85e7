package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// A directory reads an index and addons from a local directory. It reads nothing outside of root, even if symbolic
// links lead there.
type directory struct {
	fetcher *Fetcher
	root    *os.Root
	index   string // path of the index, relative to root
}

func (f *Fetcher) openDirectory(root, index string) (*directory, error) {
	r, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failed("the directory of the repository does not exist")
	}
	if err != nil {
		return nil, err
	}
	return &directory{fetcher: f, root: r, index: index}, nil
}

// readIndex reads the index.
func (d *directory) readIndex() (*spool, error) {
	return d.readFile(d.index, d.fetcher.disk.newSpool("the index", d.fetcher.limits.Index))
}

func (d *directory) readFile(name string, to *spool) (*spool, error) {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failed("file %q does not exist in the repository", name)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, failed("%q in the repository is not a regular file", name)
	}
	file, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := io.Copy(to, file); err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}

// readAddon packs the addon's directory, which is called base and is beside the index, and returns the archive.
func (d *directory) readAddon(ctx context.Context, base string) (*spool, error) {
	dir := path.Join(path.Dir(d.index), base)
	info, err := d.root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, errMissing(dir)
	}
	if err != nil {
		return nil, err
	}
	to := d.fetcher.newPacker()
	return to.finish(fs.WalkDir(d.root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if e.IsDir() {
			return nil
		}
		if !e.Type().IsRegular() {
			return errLink(name)
		}
		if info, err := e.Info(); err != nil || info.Size() > maxObject {
			return errors.Join(err, invalid("%s is larger than the limit of %s", name, size(maxObject)))
		}
		data, err := d.root.ReadFile(name)
		if err != nil {
			return err
		}
		return to.add(name[len(dir)+1:], data)
	}))
}

// A fileRepository is a repository in a local directory. It is allowed only in develop mode. Addons are directories or
// archives beside the index.
type fileRepository struct {
	fetcher *Fetcher
	path    string
}

func (r *fileRepository) open() (*directory, error) {
	return r.fetcher.openDirectory(path.Dir(r.path), path.Base(r.path))
}

func (r *fileRepository) index(_ context.Context, _ Validators) (*spool, Validators, error) {
	d, err := r.open()
	if err != nil {
		return nil, Validators{}, err
	}
	defer d.root.Close()
	content, err := d.readIndex()
	return content, Validators{}, err
}

func (r *fileRepository) addon(ctx context.Context, name, version string, _ Validators) (*spool, Validators, error) {
	d, err := r.open()
	if err != nil {
		return nil, Validators{}, err
	}
	defer d.root.Close()
	archive := name + "-" + version + ".tgz"
	if _, err := d.root.Lstat(archive); err == nil {
		content, err := d.readFile(archive, r.fetcher.disk.newSpool("the archive", r.fetcher.limits.Archive))
		return content, Validators{}, err
	}
	content, err := d.readAddon(ctx, name+"-"+version)
	return content, Validators{}, err
}

func (r *fileRepository) close() error { return nil }
