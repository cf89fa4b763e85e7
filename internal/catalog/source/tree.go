package source

import (
	"bytes"
	"context"
	"errors"
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

func (e treeEntry) isLink() bool { return e.mode == "120000" }

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

const (
	// maxLinks is the maximum number of links in the directory of an addon. To follow a link, all trees on its path are
	// read.
	maxLinks = 100
	// maxTarget is the maximum length of the path in a link, in bytes. git has the same limit on Linux.
	maxTarget = 4095
	// maxDepth is the maximum number of directories on a path in the archive.
	maxDepth = 64
)

// archive adds all files in and below a directory of the tree root to an archive. dir is the path of the directory. If
// a link in it leads to a file or directory in root, archive adds this file or directory under the name of the link.
func (p *pack) archive(ctx context.Context, root plumbing.Hash, dir string, to *packer) error {
	e, err := p.find(root, dir)
	if err != nil {
		return err
	}
	return (&treeArchive{pack: p, root: root, to: to}).add(ctx, e.hash, dir, "")
}

// A treeArchive adds files in and below directories of the tree root to an archive.
type treeArchive struct {
	*pack

	root  plumbing.Hash
	to    *packer
	links int // number of links that were followed
}

// add adds all files in and below the tree with this hash. dir is the path of the tree in a.root, and below is its path
// in the archive.
func (a *treeArchive) add(ctx context.Context, hash plumbing.Hash, dir, below string) error {
	if err := errors.Join(ctx.Err(), a.to.enter()); err != nil {
		return err
	}
	if strings.Count(below, "/") > maxDepth {
		return errDepth
	}
	entries, err := a.tree(hash)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, at := path.Join(below, e.name), path.Join(dir, e.name)
		if e.isLink() {
			e, at, err = a.follow(e, at)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = errLink(name)
		case err != nil:
		case e.isDir():
			err = a.add(ctx, e.hash, at, name)
		case e.isFile():
			var data []byte
			if data, err = a.object(e.hash, plumbing.BlobObject); err == nil {
				err = a.to.add(name, data)
			}
		default:
			err = errSpecial(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follow returns the entry to which the link e leads, and the path of this entry in a.root. at is the path of the link.
// If the link leads out of a.root or to nothing, or if a directory on the path in the link is itself a link, the error
// is [fs.ErrNotExist].
func (a *treeArchive) follow(e treeEntry, at string) (treeEntry, string, error) {
	for e.isLink() {
		if a.links++; a.links > maxLinks {
			return e, "", errLinks
		}
		target, err := a.object(e.hash, plumbing.BlobObject)
		if err != nil {
			return e, "", err
		}
		at = path.Join(path.Dir(at), string(target))
		if len(target) > maxTarget || path.IsAbs(string(target)) || !fs.ValidPath(at) {
			return e, "", fs.ErrNotExist
		}
		if at == "." {
			at = ""
		}
		if e, err = a.find(a.root, at); err != nil {
			return e, "", err
		}
	}
	return e, at, nil
}

var (
	errDepth = invalid("directories are nested too deeply")
	errLinks = invalid("the directory of the addon has more than the limit of %d links", maxLinks)
)

func errLink(name string) error {
	return invalid("%s is a link that leads to no file or directory of the repository", printable(name))
}

func errSpecial(name string) error {
	return invalid("%s is a submodule or of another special type; an addon must consist of files and directories", printable(name))
}

func errMissing(dir string) error {
	return invalid("directory %q does not exist in the repository", dir)
}

// join converts name, a path relative to the directory of the index, to a path relative to the root of the repository.
func (l *location) join(name string) string { return path.Join(path.Dir(l.index), name) }
