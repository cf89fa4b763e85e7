package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// A reader reads the files of an addon, and returns an error if they exceed limits. It follows symbolic links if the
// file system does.
type reader struct {
	fsys    fs.FS
	limits  Limits
	left    int64
	entries int
}

func newReader(fsys fs.FS, limits Limits) *reader {
	return &reader{fsys: fsys, limits: limits, left: limits.Total}
}

// read returns the content of a regular file. If the file does not exist, the error wraps [fs.ErrNotExist].
func (r *reader) read(name string) ([]byte, error) {
	file, err := r.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	most := min(r.limits.File, r.left)
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case int64(len(text)) > r.limits.File:
		return nil, fmt.Errorf("%s has more than the limit of %d bytes", name, r.limits.File)
	case int64(len(text)) > r.left:
		return nil, fmt.Errorf("files have more than the limit of %d bytes together", r.limits.Total)
	}
	r.left -= int64(len(text))
	return text, nil
}

// size returns the size of a file in bytes. If the file does not exist or its size cannot be read, size returns 0.
func (r *reader) size(name string) int64 {
	info, err := fs.Stat(r.fsys, name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// list returns the entries of a directory. For a symbolic link, it returns the info of the target under the name of
// the link. If dir does not exist or is not a directory, the error wraps [fs.ErrNotExist].
func (r *reader) list(dir string) ([]fs.FileInfo, error) {
	about, err := fs.Stat(r.fsys, dir)
	if err == nil && !about.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		return nil, err
	}
	if r.entries += len(entries); r.entries > r.limits.Entries {
		return nil, fmt.Errorf("there are more than the limit of %d files and directories", r.limits.Entries)
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && entry.Type()&fs.ModeSymlink != 0 {
			info, err = linked(r.fsys, path.Join(dir, entry.Name()), info)
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// linked returns the info of the target of a symbolic link, under the name of the link. If the target does not exist,
// it returns link.
func linked(fsys fs.FS, name string, link fs.FileInfo) (fs.FileInfo, error) {
	target, err := fs.Stat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return link, nil // a later read of the broken link returns the error
	}
	if err != nil {
		return nil, err
	}
	return renamed{target, link.Name()}, nil
}

// renamed is the info of a file, but with another name.
type renamed struct {
	fs.FileInfo

	name string
}

func (r renamed) Name() string { return r.name }

// visit calls do(name, below) for each regular file below dir, in lexical order: name is the path of the file, and
// below is its path relative to dir. visit omits files and directories for which skip returns true. It returns an error
// if it finds anything that is neither a regular file nor a directory.
func (r *reader) visit(dir string, skip func(below string, info fs.FileInfo) bool, do func(name, below string) error) error {
	return r.visitBelow(dir, "", 0, skip, do)
}

func (r *reader) visitBelow(dir, below string, depth int, skip func(string, fs.FileInfo) bool, do func(name, below string) error) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: path has more than the limit of %d directories", dir, maxDepth)
	}
	infos, err := r.list(dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		name, under := path.Join(dir, info.Name()), path.Join(below, info.Name())
		switch {
		case skip(under, info):
		case info.IsDir():
			err = r.visitBelow(name, under, depth+1, skip, do)
		case info.Mode().IsRegular():
			err = do(name, under)
		default:
			err = fmt.Errorf("%s is not a regular file, but a broken link, a device or another special file; remove it", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
