package module

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// A File is a regular file below a directory.
type File struct {
	Name string // path relative to the directory, with slashes
	Size int64  // in bytes
}

// Files yields the regular files in and below the directory root. Like Helm, it follows symlinks to files and
// directories. It leaves out sockets and similar files, dangling links, links to a directory that contains the link, and
// directories for which omit returns true; the argument of omit is the path of the directory relative to root. If a file
// or a directory cannot be read, Files yields its name with the error, and the loop can go on.
func Files(root string, omit func(dir string) bool) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		info, err := os.Stat(root)
		if err != nil {
			yield(File{}, err)
			return
		}
		files{root, omit, yield}.visit("", []fs.FileInfo{info})
	}
}

// files is the state of one loop over [Files].
type files struct {
	root  string
	omit  func(dir string) bool
	yield func(File, error) bool
}

// visit yields the files in and below the directory dir. The argument within has the directories from the root to dir.
// visit returns false if the loop has ended.
func (f files) visit(dir string, within []fs.FileInfo) bool {
	entries, err := os.ReadDir(filepath.Join(f.root, dir))
	if err != nil {
		return f.yield(File{Name: dir}, err)
	}
	for _, entry := range entries {
		name, goesOn := path.Join(dir, entry.Name()), true
		info, err := os.Stat(filepath.Join(f.root, name))
		switch {
		case leadsNowhere(err):
		case err != nil:
			goesOn = f.yield(File{Name: name}, err)
		case info.Mode().IsRegular():
			goesOn = f.yield(File{Name: name, Size: info.Size()}, nil)
		case info.IsDir() && !f.omit(name) && !contains(within, info):
			goesOn = f.visit(name, append(slices.Clone(within), info))
		}
		if !goesOn {
			return false
		}
	}
	return true
}

func contains(directories []fs.FileInfo, directory fs.FileInfo) bool {
	return slices.ContainsFunc(directories, func(other fs.FileInfo) bool { return os.SameFile(other, directory) })
}

// leadsNowhere reports whether err is the error of a dangling link: its target does not exist, is below a file, or is the
// link itself.
func leadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
