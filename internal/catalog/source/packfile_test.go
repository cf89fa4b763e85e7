package source

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"addon-operator/internal/catalog"
)

// A packEntry is an object of a packfile: its kind, the reference to its base if it is a delta, and its content.
type packEntry struct {
	kind plumbing.ObjectType
	base []byte
	data []byte
}

func blob(text string) packEntry { return packEntry{kind: plumbing.BlobObject, data: []byte(text)} }

// treeOf returns a tree with entries such as "100644 name", each followed by its hash.
func treeOf(entries ...any) packEntry {
	var data bytes.Buffer
	for _, entry := range entries {
		switch e := entry.(type) {
		case string:
			data.WriteString(e + "\x00")
		case plumbing.Hash:
			data.Write(e[:])
		}
	}
	return packEntry{kind: plumbing.TreeObject, data: data.Bytes()}
}

// deltaOn returns a delta whose base has the given hash and size. The delta makes an object with the given text, and
// uses no byte of its base.
func deltaOn(base plumbing.Hash, size int, text string) packEntry {
	data := binary.AppendUvarint(nil, uint64(size))
	data = binary.AppendUvarint(data, uint64(len(text)))
	for part := range slices.Chunk([]byte(text), 127) {
		data = append(append(data, byte(len(part))), part...)
	}
	return packEntry{kind: plumbing.REFDeltaObject, base: base[:], data: data}
}

func (e packEntry) hash() plumbing.Hash { return plumbing.ComputeHash(e.kind, e.data) }

// packfileOf returns a packfile with the entries.
func packfileOf(t *testing.T, entries ...packEntry) []byte {
	t.Helper()
	out := bytes.NewBufferString("PACK\x00\x00\x00\x02")
	_ = binary.Write(out, binary.BigEndian, uint32(len(entries)))
	for _, e := range entries {
		head, rest := byte(e.kind)<<4|byte(len(e.data)&15), len(e.data)>>4
		for ; rest > 0; rest >>= 7 {
			out.WriteByte(head | 128)
			head = byte(rest & 127)
		}
		out.WriteByte(head)
		out.Write(e.base)
		zipped := zlib.NewWriter(out)
		if _, err := zipped.Write(e.data); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func readPackOf(t *testing.T, limits Limits, data []byte) (*pack, error) {
	t.Helper()
	content := diskOf(t, 0).newSpool("the repository", inMemory)
	if _, err := content.Write(data); err != nil {
		t.Fatal(err)
	}
	return readPack(t.Context(), content, limits.orDefault())
}

func packOf(t *testing.T, entries ...packEntry) *pack {
	t.Helper()
	p, err := readPackOf(t, Limits{}, packfileOf(t, entries...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDeltasAreResolvedInAnyOrder(t *testing.T) {
	t.Parallel()
	first := blob("first")
	second := blob("the second text")
	third := blob("third")
	entries := []packEntry{
		first,
		deltaOn(first.hash(), len(first.data), string(second.data)),
		deltaOn(second.hash(), len(second.data), string(third.data)),
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		p := packOf(t, entries[order[0]], entries[order[1]], entries[order[2]])
		for _, want := range []packEntry{first, second, third} {
			if got, err := p.object(want.hash(), plumbing.BlobObject); err != nil || !bytes.Equal(got, want.data) {
				t.Errorf("in the order %v, %q is %q: %v", order, want.data, got, err)
			}
		}
	}
}

func TestAnObjectIsReadOnlyAsItsKind(t *testing.T) {
	t.Parallel()
	text := blob("text")
	p := packOf(t, text, deltaOn(text.hash(), 4, "other"))
	for _, hash := range []plumbing.Hash{text.hash(), blob("other").hash()} {
		if _, err := p.object(hash, plumbing.TreeObject); !errors.Is(err, errDamaged) {
			t.Errorf("a blob as a tree: %v", err)
		}
	}
	_, err := p.object(hashOf("a"), plumbing.BlobObject)
	if want := "an object of the repository is missing or larger than the limit of 5 MiB"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A thin pack has deltas whose base is not in the pack. This program asks for no thin packs.
func TestADeltaWithoutItsBaseIsMissing(t *testing.T) {
	t.Parallel()
	p := packOf(t, blob("text"), deltaOn(hashOf("b"), 4, "other"))
	if _, err := p.object(blob("text").hash(), plumbing.BlobObject); err != nil {
		t.Error(err)
	}
	if _, err := p.object(blob("other").hash(), plumbing.BlobObject); err == nil {
		t.Error("a delta without its base was resolved")
	}
}

func TestADamagedPackfileIsRefused(t *testing.T) {
	t.Parallel()
	good := packfileOf(t, blob("text"), blob("another text"))
	base := blob("text")
	offset := packEntry{kind: plumbing.OFSDeltaObject, base: []byte{7}, data: []byte{4, 1, 1, 'x'}}
	for name, data := range map[string][]byte{
		"nothing":                    nil,
		"no packfile":                []byte("<html><body></body></html>"),
		"other version":              bytes.Replace(good, []byte{0, 0, 0, 2}, []byte{0, 0, 0, 9}, 1),
		"cut after the header":       good[:12],
		"cut in the last object":     good[:len(good)-6],
		"count that is too large":    append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x03"), good[12:]...),
		"size that is too small":     append(append(slices.Clone(good[:12]), good[12]-1), good[13:]...),
		"size that is too large":     append(append(slices.Clone(good[:12]), good[12]+1), good[13:]...),
		"unknown kind":               append(append(slices.Clone(good[:12]), 0x54), good[13:]...),
		"base at no offset":          packfileOf(t, offset),
		"delta of another base":      packfileOf(t, base, deltaOn(base.hash(), 5, "other")),
		"delta without its sizes":    packfileOf(t, base, packEntry{kind: plumbing.REFDeltaObject, base: hashBytes(base), data: []byte{128}}),
		"delta without its new size": packfileOf(t, base, packEntry{kind: plumbing.REFDeltaObject, base: hashBytes(base), data: []byte{4}}),
		"delta that is cut":          packfileOf(t, base, packEntry{kind: plumbing.REFDeltaObject, base: hashBytes(base), data: []byte{4, 9, 9, 'x'}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := readPackOf(t, Limits{}, data); !errors.Is(err, errDamaged) {
				t.Errorf("got %v, want %v", err, errDamaged)
			}
		})
	}
}

func hashBytes(e packEntry) []byte {
	hash := e.hash()
	return hash[:]
}

func TestAPackfileMayHaveAsManyObjectsAsTheLimit(t *testing.T) {
	t.Parallel()
	data := packfileOf(t, blob("a"), blob("b"))
	if _, err := readPackOf(t, Limits{Objects: 2}, data); err != nil {
		t.Error(err)
	}
	_, err := readPackOf(t, Limits{Objects: 1}, data)
	if want := "the repository has 2 objects, more than the limit of 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestTheBytesOfAllObjectsOfAPackfileAreLimited checks the limit of a packfile, which is 8 times the limit of the
// repository. The objects, the deltas, and the results of the deltas count toward the limit.
func TestTheBytesOfAllObjectsOfAPackfileAreLimited(t *testing.T) {
	t.Parallel()
	base := blob(strings.Repeat("x", 40))
	delta := deltaOn(base.hash(), 40, strings.Repeat("y", 77)) // 2 bytes of sizes, 1 of the instruction, and the text
	data := packfileOf(t, base, delta)
	const all = 40 + 80 + 77
	if _, err := readPackOf(t, Limits{Repository: (all + 3) / inflation}, data); err != nil {
		t.Error(err)
	}
	_, err := readPackOf(t, Limits{Repository: all / inflation}, data)
	if want := "the repository expands to more than its limit"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestReadingAPackfileEndsWithItsContext(t *testing.T) {
	t.Parallel()
	content := diskOf(t, 0).newSpool("the repository", inMemory)
	if _, err := content.Write(packfileOf(t, blob("a"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readPack(ctx, content, DefaultLimits); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTheCommitOfARequestIsFoundInThePackfile(t *testing.T) {
	t.Parallel()
	commit := func(text string) packEntry { return packEntry{kind: plumbing.CommitObject, data: []byte(text)} }
	tree := treeOf()
	good := commit("tree " + tree.hash().String() + "\nauthor x\n\nfirst\n")
	// The loop searches for two commits whose hashes begin with the same digits.
	var twins []packEntry
	prefix := ""
	seen := map[string]packEntry{}
	for i := 0; prefix == ""; i++ {
		c := commit(fmt.Sprintf("tree %s\n\n%d\n", tree.hash(), i))
		short := c.hash().String()[:4]
		if first, ok := seen[short]; ok {
			twins, prefix = []packEntry{first, c}, short
		}
		seen[short] = c
	}
	p := packOf(t, append(twins, good, tree, commit("parent x\n"), commit("tree abc\n"), blob("text"))...)
	for name, test := range map[string]struct {
		want want
		err  string
	}{
		"by its hash":              {want{commit: good.hash()}, ""},
		"by the beginning":         {want{prefix: good.hash().String()[:12]}, ""},
		"by its whole hash":        {want{prefix: good.hash().String()}, ""},
		"two with the beginning":   {want{prefix: prefix}, "several commits begin with " + prefix},
		"no commit":                {want{prefix: "0000000"}, `reference "0000000" does not exist in the repository`},
		"the beginning of a blob":  {want{prefix: blob("text").hash().String()[:12]}, `reference "` + blob("text").hash().String()[:12] + `" does not exist in the repository`},
		"a blob":                   {want{commit: blob("text").hash()}, errDamaged.Error()},
		"a commit without a tree":  {want{commit: commit("parent x\n").hash()}, errDamaged.Error()},
		"a commit with a bad tree": {want{commit: commit("tree abc\n").hash()}, errDamaged.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commit, root, err := p.commit(test.want)
			switch {
			case test.err != "":
				if err == nil || err.Error() != test.err {
					t.Errorf("got %v, want %s", err, test.err)
				}
			case err != nil || commit != good.hash() || root != tree.hash():
				t.Errorf("got commit %s with tree %s: %v", commit, root, err)
			}
		})
	}
}

func TestFilesAreFoundByTheirPathInATree(t *testing.T) {
	t.Parallel()
	file := blob("text")
	inner := treeOf("100644 index.yaml", file.hash(), "100755 run", file.hash())
	root := treeOf("120000 link", file.hash(), "40000 addons", inner.hash(), "100644 addons-1", file.hash(), "160000 module", hashOf("c"))
	p := packOf(t, file, inner, root)
	for name, want := range map[string]treeEntry{
		"":                  {mode: "40000", hash: root.hash()},
		"addons":            {name: "addons", mode: "40000", hash: inner.hash()},
		"addons/index.yaml": {name: "index.yaml", mode: "100644", hash: file.hash()},
		"addons/run":        {name: "run", mode: "100755", hash: file.hash()},
		"link":              {name: "link", mode: "120000", hash: file.hash()},
	} {
		got, err := p.find(root.hash(), name)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"nothing", "addon", "addons/nothing", "addons-1/index.yaml", "link/index.yaml", "module/x", "addons/", "/addons"} {
		if got, err := p.find(root.hash(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is %+v: %v", name, got, err)
		}
	}
}

func TestADamagedTreeIsRefused(t *testing.T) {
	t.Parallel()
	hash := hashOf("a")
	for name, tree := range map[string]packEntry{
		"no end of the name":     treeOf(hash),
		"cut hash":               {kind: plumbing.TreeObject, data: []byte("100644 a\x00short")},
		"no mode":                treeOf("a", hash),
		"no name":                treeOf("100644 ", hash),
		"parent directory":       treeOf("40000 ..", hash),
		"the directory itself":   treeOf("40000 .", hash),
		"path":                   treeOf("100644 a/b", hash),
		"absolute path":          treeOf("100644 /etc", hash),
		"name that is not UTF-8": treeOf("100644 \xff", hash),
		"after a good entry":     treeOf("100644 a", hash, "100644 ../b", hash),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := packOf(t, tree).tree(tree.hash())
			if want := "the repository contains a damaged tree"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// archiveNames returns the names of the files in an archive of the tree.
func archiveNames(t *testing.T, p *pack, tree plumbing.Hash) ([]string, error) {
	t.Helper()
	f := newFetcher(t, Options{})
	to := f.newPacker()
	content, err := to.finish(p.archive(t.Context(), tree, "", to))
	if err != nil {
		return nil, err
	}
	unpacked := &Content{archive: content, redact: newRedactor(hidden{})}
	defer unpacked.Close()
	fsys, err := unpacked.FS(t.Context())
	if err != nil {
		return nil, err
	}
	var names []string
	err = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

func TestAnArchiveHasTheFilesOfTheTreeAndItsDirectories(t *testing.T) {
	t.Parallel()
	file := blob("text")
	deep := treeOf("100644 c", file.hash())
	inner := treeOf("40000 b", deep.hash(), "100755 run.sh", file.hash(), "100664 shared", file.hash())
	root := treeOf("40000 a", inner.hash(), "100644 meta.yaml", file.hash())
	got, err := archiveNames(t, packOf(t, file, deep, inner, root), root.hash())
	if want := []string{"a/b/c", "a/run.sh", "a/shared", "meta.yaml"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestLinksToFilesAndDirectoriesOfTheTreeAreFollowed(t *testing.T) {
	t.Parallel()
	file, toFile, toDir, chain := blob("text"), blob("../shared/file"), blob("../../shared"), blob("./file")
	shared := treeOf("100644 file", file.hash(), "120000 other", chain.hash())
	chart := treeOf("120000 dir", toDir.hash())
	addon := treeOf("40000 chart", chart.hash(), "120000 link", toFile.hash())
	root := treeOf("40000 addon", addon.hash(), "40000 shared", shared.hash())
	p := packOf(t, file, toFile, toDir, chain, shared, chart, addon, root)
	f := newFetcher(t, Options{})
	to := f.newPacker()
	content, err := to.finish(p.archive(t.Context(), root.hash(), "addon", to))
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files, err := catalog.Unpack(t.Context(), content.reader(), catalog.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chart/dir/file", "chart/dir/other", "link"} {
		if text, err := fs.ReadFile(files, name); string(text) != "text" || err != nil {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

// TestATreeOfManyDirectoriesWithoutFilesIsRefused reads a tree in which each directory contains the next one twice.
func TestATreeOfManyDirectoriesWithoutFilesIsRefused(t *testing.T) {
	t.Parallel()
	entries := []packEntry{treeOf()}
	for range 30 {
		next := entries[len(entries)-1].hash()
		entries = append(entries, treeOf("40000 a", next, "40000 b", next))
	}
	_, err := archiveNames(t, packOf(t, entries...), entries[len(entries)-1].hash())
	if want := "the directory of the addon has more than the limit of 5000 files and directories"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestATreeThatIsNoAddonIsRefused(t *testing.T) {
	t.Parallel()
	file := blob("text")
	nested := []packEntry{file, treeOf("100644 file", file.hash())}
	for range 70 {
		nested = append(nested, treeOf("40000 d", nested[len(nested)-1].hash()))
	}
	const (
		link    = " is a link that leads to no file or directory of the repository"
		special = " is a submodule or of another special type; an addon must consist of files and directories"
	)
	absolute, out, loop, here := blob("/text"), blob("../text"), blob("link"), blob(".")
	linkTo := func(target packEntry) []packEntry { return []packEntry{target, treeOf("120000 link", target.hash())} }
	for name, test := range map[string]struct {
		entries []packEntry // the last one is the tree
		want    string
	}{
		"link to nothing":      {linkTo(file), "link" + link},
		"absolute link":        {linkTo(absolute), "link" + link},
		"link out of the root": {linkTo(out), "link" + link},
		"link to itself":       {linkTo(loop), errLinks.Error()},
		"link to its parent":   {linkTo(here), errDepth.Error()},
		"long link":            {linkTo(blob(strings.Repeat("a/", maxTarget))), "link" + link},
		"link to a submodule":  {[]packEntry{blob("module"), treeOf("120000 a", blob("module").hash(), "160000 module", hashOf("a"))}, "a" + special},
		"submodule":            {[]packEntry{treeOf("160000 module", hashOf("a"))}, "module" + special},
		"link in a directory":  {[]packEntry{file, treeOf("120000 l\x1bink", file.hash()), treeOf("40000 d", treeOf("120000 l\x1bink", file.hash()).hash())}, "d/l ink" + link},
		"file that is missing": {[]packEntry{treeOf("100644 file", hashOf("a"))}, "an object of the repository is missing or larger than the limit of 5 MiB"},
		"file that is a tree":  {[]packEntry{treeOf(), treeOf("100644 file", treeOf().hash())}, errDamaged.Error()},
		"deep directories":     {nested, "directories are nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := archiveNames(t, packOf(t, test.entries...), test.entries[len(test.entries)-1].hash())
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestEqualFilesMakeEqualArchives(t *testing.T) {
	t.Parallel()
	f := newFetcher(t, Options{})
	digest := func(files ...string) string {
		to := f.newPacker()
		var err error
		for i := 0; i < len(files) && err == nil; i += 2 {
			err = to.add(files[i], []byte(files[i+1]))
		}
		content, err := to.finish(err)
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		return content.digest()
	}
	one := digest("a", "1", "b", "2")
	if again := digest("a", "1", "b", "2"); again != one {
		t.Error("two archives of the same files have different digests")
	}
	for name, other := range map[string]string{
		"name": digest("a", "1", "c", "2"), "content": digest("a", "1", "b", "3"), "order": digest("b", "2", "a", "1"), "file": digest("a", "1", "b", "2", "c", ""),
	} {
		if other == one {
			t.Errorf("an archive with another %s has the same digest", name)
		}
	}
}
