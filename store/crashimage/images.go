package crashimage

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// Options say how many images there are.
type Options struct {
	// Seed is that of all chance.
	Seed uint64
	// Subsets is how many images with parts chosen by chance there are for each moment.
	Subsets int
	// Most is how many other images there are for a moment, chosen by chance if there could be more; 0 is all. It
	// bounds moments at which a whole new file has not been synced.
	Most int
}

// An Image is what a crash leaves.
type Image struct {
	// Marks are the lines the program had written before, in order.
	Marks []string
	// Text says when the crash was and what was lost.
	Text string

	files map[string]*content // by name
}

// Has reports whether the directory has a file of that name.
func (i Image) Has(name string) bool { return i.files[name] != nil }

// Write makes the files of the image those of the directory dir.
func (i Image) Write(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, wanted := i.files[e.Name()]; !wanted {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	for name, c := range i.files {
		err = errors.Join(err, c.save(filepath.Join(dir, name)))
	}
	return err
}

// Images yields what a crash during the recording can leave: for each moment at which something becomes
// durable, and the end, what is on disk if the power is lost just before. These are all the first parts of
// what was pending in order; all of it without one write; one write alone; each write cut at each sector; and
// parts chosen by chance. Equal images with equally many marks are yielded once.
func (r *Recording) Images(o Options) iter.Seq[Image] {
	return func(yield func(Image) bool) {
		d := newDisk(r.before)
		seen := map[uint64]bool{}
		chance := rand.New(rand.NewPCG(o.Seed, 1)) //nolint:gosec // it is to be repeated
		for i := range len(r.ops) + 1 {
			if i == len(r.ops) || r.ops[i].kind == syncFile || r.ops[i].kind == syncDir {
				for _, c := range d.choices(o, chance) {
					left := d.after(c)
					sum := left.sum(len(d.marks))
					if seen[sum] {
						continue
					}
					seen[sum] = true
					text := fmt.Sprintf("before call %d of %d: %s", i, len(r.ops), c.text)
					if !yield(Image{Marks: slices.Clip(d.marks), Text: text, files: left.files()}) {
						return
					}
				}
			}
			if i < len(r.ops) {
				d.do(&r.ops[i], i)
			}
		}
	}
}

// A change is an operation on a file or on names that is not durable.
type change struct {
	*operation

	file int // 0 for changes of names
	with int // the file that gets a name
}

// A directory is names and the contents of their files.
type directory struct {
	names    map[string]int // numbers of the files
	contents map[int]*content
}

// sum returns a hash of the directory and a number of marks.
func (d directory) sum(marks int) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		c := d.content(d.names[name])
		maphash.WriteComparable(&h, name)
		maphash.WriteComparable(&h, c.sum)
		maphash.WriteComparable(&h, c.length)
	}
	maphash.WriteComparable(&h, marks)
	return h.Sum64()
}

// content returns the content of a file, which is empty if nothing was written.
func (d directory) content(file int) *content {
	if c := d.contents[file]; c != nil {
		return c
	}
	return contentOf(nil)
}

// files returns the contents by name.
func (d directory) files() map[string]*content {
	all := map[string]*content{}
	for name, file := range d.names {
		all[name] = d.content(file)
	}
	return all
}

// rename changes the names as c does.
func (d directory) rename(c change) {
	switch c.kind { //nolint:exhaustive // others give no name
	case create:
		d.names[c.name] = c.with
	case link, rename:
		d.names[c.other] = c.with
	}
	if c.kind == rename || c.kind == remove {
		delete(d.names, c.name)
	}
}

// write changes a file as some of the bytes of c do. The file's content must be the directory's own.
func (d directory) write(c change, p part) {
	content, offset := d.contents[c.file], int(c.offset)
	switch c.kind {
	case truncate:
		content.truncate(offset)
	case extend:
		content.truncate(max(content.length, offset))
	default:
		content.write(offset+p.from, c.data[p.from:p.to])
	}
}

// A disk is what is durable in the directory, and what is not yet.
type disk struct {
	durable directory
	names   map[string]int // the files as the program sees them
	files   int            // numbers of files given away
	pending []change       // in order
	known   int            // how many of them the choices have taken apart
	marks   []string
}

func newDisk(files map[string][]byte) *disk {
	d := &disk{names: map[string]int{}, durable: directory{map[string]int{}, map[int]*content{}}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		d.files++
		d.names[name], d.durable.names[name], d.durable.contents[d.files] = d.files, d.files, contentOf(files[name])
	}
	return d
}

// do applies the operation with that index.
func (d *disk) do(op *operation, index int) {
	file := d.names[op.name]
	switch op.kind {
	case mark:
		d.marks = append(d.marks, string(op.data))
	case create:
		switch {
		case file == 0:
			d.files++
			d.names[op.name] = d.files
			d.pending = append(d.pending, change{operation: op, with: d.files})
		case op.offset > 0: // it was there, and loses its content
			d.pending = append(d.pending, change{operation: &operation{kind: truncate, name: op.name, returned: op.returned}, file: file})
		}
	case link, rename:
		d.names[op.other] = file
		if op.kind == rename {
			delete(d.names, op.name)
		}
		d.pending = append(d.pending, change{operation: op, with: file})
	case remove:
		delete(d.names, op.name)
		d.pending = append(d.pending, change{operation: op})
	case syncDir:
		d.makeDurable(0, index)
	default:
		switch {
		case file == 0: // it has no name any more, and nobody sees it after a crash
		case op.kind == syncFile:
			d.makeDurable(file, index)
		default:
			d.pending = append(d.pending, change{operation: op, file: file})
		}
	}
}

// makeDurable makes what was done to a file, or to the names if it is 0, before operation index durable.
func (d *disk) makeDurable(file, index int) {
	if file != 0 {
		d.durable.contents[file] = d.durable.content(file).clone()
	}
	i, known := 0, d.known
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		i++
		if c.file != file || c.returned > index {
			return false
		}
		if i <= known {
			d.known--
		}
		if file == 0 {
			d.durable.rename(c)
		} else {
			d.durable.write(c, part{0, len(c.data)})
		}
		return true
	})
	if file != 0 {
		d.durable.contents[file] = d.durable.contents[file].flat()
	}
}

// after returns what is left if of the pending changes those of c are on disk.
func (d *disk) after(c choice) directory {
	left := directory{maps.Clone(d.durable.names), maps.Clone(d.durable.contents)}
	own := map[int]bool{}
	for i, p := range d.pending {
		parts := c.parts(i)
		if len(parts) > 0 && p.file == 0 {
			left.rename(p)
			continue
		}
		for _, part := range parts {
			if !own[p.file] {
				own[p.file], left.contents[p.file] = true, left.content(p.file).clone()
			}
			left.write(p, part)
		}
	}
	return left
}
