package source

import (
	"bytes"
	"io/fs"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// A treeEntry is one entry of a git tree, such as a file or a directory.
type treeEntry struct {
	name string
	mode string // octal mode, as git writes it
	hash plumbing.Hash
}

func (e treeEntry) isDir() bool { return e.mode == "40000" }

func (e treeEntry) isFile() bool {
	return e.mode == "100644" || e.mode == "100755" || e.mode == "100664"
}

// tree returns the entries of the git tree (a directory) with this hash.
func (p *pack) tree(hash plumbing.Hash) ([]treeEntry, error) {
	data, err := p.object(hash, plumbing.TreeObject)
	if err != nil {
		return nil, err
	}
	var entries []treeEntry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, separated := strings.Cut(string(head), " ")
		if !ok || !separated || len(rest) < len(plumbing.Hash{}) || !fs.ValidPath(name) || strings.Contains(name, "/") || name == "." {
			return nil, failed("the repository contains a damaged tree")
		}
		e := treeEntry{name: name, mode: mode}
		data = rest[copy(e.hash[:], rest):]
		entries = append(entries, e)
	}
	return entries, nil
}

// find returns one entry. root is the hash of a tree, and name is the path of the entry relative to this tree. If there
// is no such entry, the error is [fs.ErrNotExist].
func (p *pack) find(root plumbing.Hash, name string) (treeEntry, error) {
	at := treeEntry{mode: "40000", hash: root}
	if name == "" {
		return at, nil
	}
	for segment := range strings.SplitSeq(name, "/") {
		if !at.isDir() {
			return treeEntry{}, fs.ErrNotExist
		}
		entries, err := p.tree(at.hash)
		if err != nil {
			return treeEntry{}, err
		}
		found := false
		for _, e := range entries {
			if e.name == segment {
				at, found = e, true
				break
			}
		}
		if !found {
			return treeEntry{}, fs.ErrNotExist
		}
	}
	return at, nil
}

// archive adds all files in and below the tree with this hash to an archive. dir is the path of the tree in the
// archive.
func (p *pack) archive(hash plumbing.Hash, dir string, to *packer) error {
	const maxDepth = 64
	if strings.Count(dir, "/") > maxDepth {
		return invalid("directories are nested too deeply")
	}
	entries, err := p.tree(hash)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.name)
		switch {
		case e.isDir():
			err = p.archive(e.hash, name, to)
		case e.isFile():
			var data []byte
			if data, err = p.object(e.hash, plumbing.BlobObject); err == nil {
				err = to.add(name, data)
			}
		default:
			err = errLink(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func errLink(name string) error {
	return invalid("%s is a link, a submodule or of another special type; an addon must consist of files and directories", printable(name))
}

func errMissing(dir string) error {
	return invalid("directory %q does not exist in the repository", dir)
}

// join converts name, a path relative to the directory of the index, to a path relative to the root of the repository.
func (l *location) join(name string) string { return path.Join(path.Dir(l.index), name) }
