package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// grown returns the bytes of a store's file that has branch pages, overflowing
// values and free pages.
func grown(t testing.TB) []byte {
	t.Helper()
	path := made(t, 3000)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Tx) error {
		n := 0
		for k := range tx.Range(At(Modules)) {
			if n++; n%3 != 0 {
				tx.Delete(k)
			}
		}
		return Save(tx, At(Modules).Str("large"), strings.Repeat("v", 50_000))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// With its defaults, bbolt writes the list of free pages in each commit.
	old, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := errors.Join(old.Update(func(*bbolt.Tx) error { return nil }), old.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(&b)
		return err
	}), old.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWholeFilesAreVerified(t *testing.T) {
	t.Parallel()
	empty, err := os.ReadFile(made(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"empty": empty, "grown": grown(t)} {
		if err := verifyBolt(bytes.NewReader(b), int64(len(b))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAFileIsVerifiedAsBboltWroteIt verifies files of several page sizes that bbolt has written, with and without a
// list of free pages. The verification must find no damage.
func TestAFileIsVerifiedAsBboltWroteIt(t *testing.T) {
	t.Parallel()
	for _, o := range []bbolt.Options{
		{PageSize: 1024},
		{PageSize: 4096, NoFreelistSync: true},
		{PageSize: 16 << 10, FreelistType: bbolt.FreelistMapType},
	} {
		path := filepath.Join(t.TempDir(), "store.db")
		db, err := bbolt.Open(path, 0o600, &o)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 5 {
			if err := db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists(bucket)
				if err != nil {
					return err
				}
				for i := range 2000 {
					k := At(Metrics).Uint(uint64(i))
					if (i+round)%3 == 0 {
						err = b.Delete(k)
					} else {
						err = b.Put(k, make([]byte, i%700))
					}
					if err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifyBolt(bytes.NewReader(b), int64(len(b))); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestATornMetaPageLeadsToTheOneBefore(t *testing.T) {
	t.Parallel()
	whole := grown(t)
	for _, torn := range []int{0, os.Getpagesize()} {
		b := bytes.Clone(whole)
		clear(b[torn+pageHeader+20 : torn+pageHeader+60])
		if err := verifyBolt(bytes.NewReader(b), int64(len(b))); err != nil {
			t.Errorf("meta page at %d torn: %v", torn, err)
		}
	}
}

func TestDamageIsFoundAndTheFileLeftAlone(t *testing.T) {
	t.Parallel()
	whole := grown(t)
	for name, damage := range structuralDamage(t, whole) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path, damage(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			untouched(t, path, ErrCorrupt, Open)
			untouched(t, path, ErrCorrupt, OpenReadOnly)
		})
	}
}

// structuralDamage returns changes of the bytes of a grown file, each of which damages it.
func structuralDamage(t *testing.T, whole []byte) map[string]func(b []byte) []byte {
	t.Helper()
	size := os.Getpagesize()
	// pages returns the numbers of the pages whose type is flag.
	pages := func(flag uint16) (ids []int) {
		for id := 2; id < len(whole)/size; id++ {
			p := whole[id*size:]
			if binary.NativeEndian.Uint64(p) == uint64(id) && binary.NativeEndian.Uint16(p[8:]) == flag {
				ids = append(ids, id)
			}
		}
		return ids
	}
	if len(pages(branchPage)) == 0 || len(pages(leafPage)) < 10 || len(pages(freelistPage)) == 0 {
		t.Fatalf("a tree of %d branches, %d leaves", len(pages(branchPage)), len(pages(leafPage)))
	}
	m, _, ok := parseMeta(whole[pageHeader:])
	if !ok {
		t.Fatal("no meta page")
	}
	n := binary.NativeEndian
	freelist := int(m.freelist) * size
	neighbour := 0 // offset of a leaf page that is followed by another leaf page
	for _, id := range pages(leafPage) {
		if slices.Contains(pages(leafPage), id+1) && n.Uint32(whole[id*size+12:]) == 0 && !free(whole, freelist, id) && !free(whole, freelist, id+1) {
			neighbour = id * size
		}
	}
	if neighbour == 0 {
		t.Fatal("no leaf follows another")
	}
	// root returns the part of b that begins at the root page of the tree of the store's keys.
	root := func(b []byte) []byte {
		v := &verifier{verifiedFile: verifiedFile{file: bytes.NewReader(b), size: int64(len(b))}}
		if err := v.readMeta(); err != nil {
			t.Fatal(err)
		}
		value, err := v.buckets()
		if err != nil {
			t.Fatal(err)
		}
		return b[int(binary.NativeEndian.Uint64(value))*size:]
	}
	// child returns the position of the i-th page below the root. key returns the part of b that
	// begins at the i-th key of the leaf at p; a negative i counts from the end of the leaf.
	child := func(b []byte, i int) int {
		return int(n.Uint64(root(b)[pageHeader+i*pageElement+8:])) * size
	}
	key := func(b []byte, p, i int) []byte {
		if i < 0 {
			i += int(n.Uint16(b[p+10:]))
		}
		at := p + pageHeader + i*pageElement
		return b[at+int(n.Uint32(b[at+4:])):]
	}
	return map[string]func(b []byte) []byte{
		"empty":                    func([]byte) []byte { return nil },
		"cut in half":              func(b []byte) []byte { return b[:len(b)/2/size*size] },
		"cut by a byte":            func(b []byte) []byte { return b[:len(b)-1] },
		"cut behind the metas":     func(b []byte) []byte { return b[:2*size] },
		"both metas torn":          func(b []byte) []byte { clear(b[40:70]); clear(b[size+40 : size+70]); return b },
		"zeroes from page 2 on":    func(b []byte) []byte { clear(b[2*size:]); return b },
		"a root that leads away":   func(b []byte) []byte { n.PutUint64(root(b)[pageHeader+8:], 1<<40); return b },
		"a root that leads to 0":   func(b []byte) []byte { n.PutUint64(root(b)[pageHeader+8:], 0); return b },
		"a root that leads back":   func(b []byte) []byte { p := root(b); n.PutUint64(p[pageHeader+8:], n.Uint64(p)); return b },
		"a branch without leaves":  func(b []byte) []byte { n.PutUint16(root(b)[10:], 0); return b },
		"too many elements":        func(b []byte) []byte { n.PutUint16(root(b)[10:], 0xffff); return b },
		"an element outside":       func(b []byte) []byte { n.PutUint32(root(b)[pageHeader:], 1<<31); return b },
		"an element out of order":  func(b []byte) []byte { p := root(b); p[pageHeader+n.Uint32(p[pageHeader:])] = 0xff; return b },
		"a leaf that begins low":   func(b []byte) []byte { key(b, child(b, 1), 0)[0] = 0; return b },
		"a leaf that ends high":    func(b []byte) []byte { key(b, child(b, 2), -1)[0] = 0xff; return b },
		"a page of no kind":        func(b []byte) []byte { n.PutUint16(root(b)[8:], 7); return b },
		"a page within another":    func(b []byte) []byte { n.PutUint32(b[neighbour+12:], 1); return b },
		"a page that overflows":    func(b []byte) []byte { n.PutUint32(root(b)[12:], 1<<20); return b },
		"no list of free pages":    func(b []byte) []byte { n.PutUint16(b[freelist+8:], leafPage); return b },
		"a used page that is free": func(b []byte) []byte { n.PutUint64(b[freelist+pageHeader:], m.freelist); return b },
		"too many free pages":      func(b []byte) []byte { n.PutUint16(b[freelist+10:], 0xfffe); return b },
	}
}

// free reports whether page id is in the list of free pages, which is in b at the offset list.
func free(b []byte, list, id int) bool {
	n := binary.NativeEndian
	for i := range int(n.Uint16(b[list+10:])) {
		if n.Uint64(b[list+pageHeader+8*i:]) == uint64(id) {
			return true
		}
	}
	return false
}

// TestNoDamageEndsTheProgram damages files at random, and uses the store. Opening the store and the transactions can
// succeed, or return an error that reports damage. They must not panic.
func TestNoDamageEndsTheProgram(t *testing.T) {
	t.Parallel()
	whole := grown(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "store.db")
	found := 0
	for range 150 {
		b := bytes.Clone(whole)
		for range 1 + r.IntN(4) {
			at := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[at] ^= 1 << r.IntN(8)
			case 1: // a byte of the header of a page, or of its first elements
				at -= at % os.Getpagesize()
				b[at+r.IntN(64)] = byte(r.Uint32())
			case 2:
				clear(b[at:min(at+512, len(b))])
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{})
		if err == nil {
			// If a damaged file can be opened, the transactions may return errors, but must not panic.
			err = errors.Join(db.Update(put("a", "1")), db.View(func(tx *Tx) error { return checkRecords(tx) }), db.Close())
		} else {
			found++
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotStore) && !strings.Contains(err.Error(), "is not JSON") && !strings.Contains(err.Error(), "no table") {
			t.Errorf("%v", err)
		}
	}
	if found == 0 {
		t.Error("no damage was found when opening")
	}
}

func FuzzVerifyBolt(f *testing.F) {
	path := filepath.Join(f.TempDir(), "store.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 1024})
	if err != nil {
		f.Fatal(err)
	}
	for range 2 {
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			for i := range 30 {
				err = errors.Join(err, b.Put(At(Metrics).Uint(uint64(i)), make([]byte, 50)))
			}
			return err
		}); err != nil {
			f.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:20<<10])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		// The pages to which a meta page refers are only visited if the checksum of the meta page
		// matches. For this reason, the test writes the matching checksum.
		if b = bytes.Clone(b); len(b) >= pageHeader+metaSize {
			h := fnv.New64a()
			h.Write(b[pageHeader:][:metaSize-8])
			binary.NativeEndian.PutUint64(b[pageHeader+metaSize-8:], h.Sum64())
		}
		if err := verifyBolt(bytes.NewReader(b), int64(len(b))); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotStore) {
			t.Error(err)
		}
	})
}

// TestALevelOfManyPagesIsVerifiedInParts verifies a file with so many leaves that several goroutines visit them, if the
// machine has more than one processor. The verification must find damage in each part of the file.
func TestALevelOfManyPagesIsVerifiedInParts(t *testing.T) {
	t.Parallel()
	const records, size = 8000, 1024
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: size, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) Key { return At(Metrics).Uint(uint64(i)) } //nolint:gosec // it is positive
	if err := errors.Join(db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		for i := range records {
			err = errors.Join(err, b.Put(key(i), seal(nil, key(i), bytes.Repeat([]byte("v"), 300))))
		}
		return err
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.NativeEndian
	var leaves []int
	for at := 2 * size; at < len(whole); at += size {
		if n.Uint64(whole[at:]) == uint64(at/size) && n.Uint16(whole[at+8:]) == leafPage {
			leaves = append(leaves, at)
		}
	}
	if len(leaves) < 4*partPages {
		t.Fatalf("%d leaves", len(leaves))
	}
	if v, err := verifyRecords(whole); err != nil || v.records != records || len(v.damaged) > 0 {
		t.Fatalf("%d records, %d damaged: %v", v.records, len(v.damaged), err)
	}
	// flip damages the last record of the leaf at p. A few of the first and of the last leaves in the file are not in
	// use, so the test damages only other leaves one by one.
	flip := func(b []byte, p int) {
		at := p + pageHeader + (int(n.Uint16(b[p+10:]))-1)*pageElement
		b[at+int(n.Uint32(b[at+4:])+n.Uint32(b[at+8:])+n.Uint32(b[at+12:]))-1] ^= 1
	}
	flipped := bytes.Clone(whole)
	for _, p := range leaves {
		flip(flipped, p)
	}
	if v, err := verifyRecords(flipped); err != nil || v.records != records || len(v.damaged) != mostDamaged {
		t.Errorf("%d records, %d damaged, want %d: %v", v.records, len(v.damaged), mostDamaged, err)
	}
	for _, at := range []int{10, len(leaves) / 2, len(leaves) - 10} {
		b := bytes.Clone(whole)
		flip(b, leaves[at])
		if v, err := verifyRecords(b); err != nil || len(v.damaged) != 1 {
			t.Errorf("a damaged record in leaf %d: %d damaged: %v", at, len(v.damaged), err)
		}
		b = bytes.Clone(whole)
		n.PutUint16(b[leaves[at]+10:], 0xffff)
		if _, err := verifyRecords(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("too many elements in leaf %d: %v", at, err)
		}
	}
	for at := 2 * size; at < len(whole); at += size {
		if n.Uint64(whole[at:]) != uint64(at/size) || n.Uint16(whole[at+8:]) != branchPage || !slices.Contains(leaves, int(n.Uint64(whole[at+pageHeader+8:]))*size) { //nolint:gosec // the numbers are small
			continue
		}
		for want, page := range map[string]uint64{"is used twice": n.Uint64(whole[at+pageHeader+8:]), "page 1099511627776 does not exist": 1 << 40} {
			b := bytes.Clone(whole)
			n.PutUint64(b[at+pageHeader+pageElement+8:], page)
			if _, err := verifyRecords(b); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("branch page %d refers to page %d: %v, want an error with %q", at/size, page, err, want)
			}
		}
		break
	}
}

// A panickingFile panics when a whole page is read. Reads of the meta pages do not panic, because they are shorter
// than a page.
type panickingFile struct{ *bytes.Reader }

// ReadAt implements io.ReaderAt.
func (f panickingFile) ReadAt(b []byte, at int64) (int, error) {
	if len(b) >= os.Getpagesize() {
		panic("index out of range")
	}
	return f.Reader.ReadAt(b, at)
}

func TestAPanicOfTheVerifierIsDamageAndDoesNotEndTheProcess(t *testing.T) {
	t.Parallel()
	whole := grown(t)
	if err := verifyBolt(panickingFile{bytes.NewReader(whole)}, int64(len(whole))); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("the file is %v, want it damaged", err)
	}
}
