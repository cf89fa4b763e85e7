package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
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

// readAddon packs the directory called base, which is beside the index and contains an addon. It returns the archive.
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
	return to.finish(d.archive(ctx, dir, "", to))
}

// archive adds all files in and below a directory to an archive. dir is the path of the directory, and below is its
// path in the archive. If a link in it leads to a file or directory in d.root, archive adds this file or directory
// under the name of the link.
func (d *directory) archive(ctx context.Context, dir, below string, to *packer) error {
	if err := errors.Join(ctx.Err(), to.enter()); err != nil {
		return err
	}
	if strings.Count(below, "/") > maxDepth {
		return errDepth
	}
	entries, err := fs.ReadDir(d.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, under := path.Join(dir, e.Name()), path.Join(below, e.Name())
		info, err := d.root.Stat(name) // follows links that do not lead out of the root
		switch {
		case err != nil && e.Type()&fs.ModeSymlink != 0:
			err = errLink(name)
		case err != nil:
		case info.IsDir():
			err = d.archive(ctx, name, under, to)
		case !info.Mode().IsRegular():
			err = errSpecial(name)
		case info.Size() > maxObject:
			err = invalid("%s is larger than the limit of %s", name, size(maxObject))
		default:
			var data []byte
			if data, err = d.root.ReadFile(name); err == nil {
				err = to.add(under, data)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
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
