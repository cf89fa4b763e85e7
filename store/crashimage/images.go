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

// Options limit the number of images that [Recording.Images] yields.
type Options struct {
	// Seed is the seed of all random choices.
	Seed uint64
	// Subsets is the number of images, for each time of a crash, that have a random subset of the
	// pending changes.
	Subsets int
	// Most is the maximum number of other images for each time of a crash; 0 means no limit. If a
	// time of a crash has more such images, a random choice of them is used. A limit is useful for
	// a crash before the first sync of a large new file, because such a crash has very many images.
	Most int
}

// An Image is the content of a directory after a crash.
type Image struct {
	// Marks are the marks that the program had written before the crash, in order. See the function
	// Marks.
	Marks []string
	// Text says when the crash was, and which changes were lost.
	Text string

	files map[string]*content // by name
}

// Has reports whether the directory has a file of that name.
func (i Image) Has(name string) bool { return i.files[name] != nil }

// Write writes the files of the image to the directory dir, and removes all other files from dir.
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

// Images yields the contents of the directory that a crash during the recording can leave. Images
// yields images for a power loss just before each sync, and for a power loss at the end of the
// recording. Each image of such a power loss contains one of these sets of pending changes: the
// first N, for each N; all except one; only one; one change of a file and all changes of names; a
// set in which one write is cut at a sector; or a random subset. Of equal images with the same number
// of marks, only the first is yielded.
func (r *Recording) Images(o Options) iter.Seq[Image] {
	return func(yield func(Image) bool) {
		d := newDisk(r.before)
		seen := map[uint64]bool{}
		chance := rand.New(rand.NewPCG(o.Seed, 1)) //nolint:gosec // the result must be reproducible
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

// A change is an operation that is not durable yet, on the content of a file or on names.
type change struct {
	*operation

	file int // the number of the changed file; 0 for changes of names
	with int // the number of the file that gets a name
}

// A directory has names and the contents of their files.
type directory struct {
	names    map[string]int // numbers of the files
	contents map[int]*content
}

// sum returns a hash of the directory and of the number of marks.
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

// rename applies the change c to the names.
func (d directory) rename(c change) {
	switch c.kind { //nolint:exhaustive // other kinds add no name
	case create:
		d.names[c.name] = c.with
	case link, rename:
		d.names[c.other] = c.with
	}
	if c.kind == rename || c.kind == remove {
		delete(d.names, c.name)
	}
}

// write applies the part p of the change c to a file. The directory must not share the content of
// the file with another directory.
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

// A disk has the durable content of the directory, and the pending changes, which are not durable
// yet.
type disk struct {
	durable directory
	names   map[string]int // numbers of the files by name, as the program sees them
	files   int            // number of files that the directory has had
	pending []change       // in order
	known   int            // number of pending changes that an earlier call of choices has varied
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

// do applies op, which has the given index in the recording.
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
		case op.offset > 0: // the file existed, and loses its content
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
		case file == 0: // the file has no name, so nobody can read it after a crash
		case op.kind == syncFile:
			d.makeDurable(file, index)
		default:
			d.pending = append(d.pending, change{operation: op, file: file})
		}
	}
}

// makeDurable makes changes of a file durable: those whose system calls had returned before the
// operation with the given index began. If file is 0, makeDurable does this with the changes of names.
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

// after returns the directory that a crash leaves: it has only those pending changes that c
// selects.
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
