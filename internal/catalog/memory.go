package catalog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// memory is a read-only file system in memory. The zero value is an empty root directory.
type memory struct {
	// nodes are the files and directories by path, without the root.
	nodes map[string]*node
	root  node
}

// A node is a file or a directory in a [memory].
type node struct {
	name    string
	data    []byte
	dir     bool
	entries []fs.DirEntry // if the node is a directory: its entries, sorted by name
}

var (
	errExists  = errors.New("there is another file with this name")
	errNotDirs = errors.New("a directory of its path is a file")
)

// mkdir returns the directory called name. If it does not exist, mkdir adds it and its parents.
func (m *memory) mkdir(name string) (*node, error) {
	m.root.dir = true
	if name == "." {
		return &m.root, nil
	}
	if known := m.nodes[name]; known != nil {
		if !known.dir {
			return nil, errNotDirs
		}
		return known, nil
	}
	added := &node{dir: true}
	return added, m.add(name, added)
}

// write adds a file, and its parent directories if they do not exist. The caller must not change data afterwards.
func (m *memory) write(name string, data []byte) error {
	return m.add(name, &node{data: data})
}

func (m *memory) add(name string, n *node) error {
	if m.nodes[name] != nil || name == "." {
		return errExists
	}
	parent, err := m.mkdir(path.Dir(name))
	if err != nil {
		return err
	}
	if m.nodes == nil {
		m.nodes = map[string]*node{}
	}
	n.name = path.Base(name)
	m.nodes[name] = n
	at, _ := slices.BinarySearchFunc(parent.entries, n.name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	parent.entries = slices.Insert(parent.entries, at, fs.FileInfoToDirEntry(info{n}))
	return nil
}

func (m *memory) node(op, name string) (*node, error) {
	switch {
	case !fs.ValidPath(name):
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	case name == ".":
		return &node{name: ".", dir: true, entries: m.root.entries}, nil
	case m.nodes[name] == nil:
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	default:
		return m.nodes[name], nil
	}
}

// Open implements [fs.FS].
func (m *memory) Open(name string) (fs.File, error) {
	n, err := m.node("open", name)
	if err != nil {
		return nil, err
	}
	if n.dir {
		return &openDir{n: n}, nil
	}
	return &openFile{Reader: bytes.NewReader(n.data), n: n}, nil
}

// Stat implements [fs.StatFS].
func (m *memory) Stat(name string) (fs.FileInfo, error) {
	n, err := m.node("stat", name)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

// ReadDir implements [fs.ReadDirFS].
func (m *memory) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := m.node("open", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	return slices.Clone(n.entries), nil
}

// info implements [fs.FileInfo].
type info struct{ *node }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.data)) }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

type openFile struct {
	*bytes.Reader

	n *node
}

func (f *openFile) Stat() (fs.FileInfo, error) { return info{f.n}, nil }
func (f *openFile) Close() error               { return nil }

type openDir struct {
	n    *node
	next int
}

func (d *openDir) Stat() (fs.FileInfo, error) { return info{d.n}, nil }
func (d *openDir) Close() error               { return nil }
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.n.name, Err: errors.New("is a directory")}
}

// ReadDir implements [fs.ReadDirFile].
func (d *openDir) ReadDir(most int) ([]fs.DirEntry, error) {
	left := d.n.entries[d.next:]
	if most > 0 {
		if len(left) == 0 {
			return nil, io.EOF
		}
		left = left[:min(most, len(left))]
	}
	d.next += len(left)
	return slices.Clone(left), nil
}
