package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestQueriesReadWhatBboltReads reads ranges and keys with boltPages and with bbolt, and compares the results. The
// files have several page sizes.
func TestQueriesReadWhatBboltReads(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	key := func() Key { return At(Metrics).Str(fmt.Sprint(r.IntN(4000))) }
	for _, records := range []int{0, 3, 300, 4000} {
		for _, pageSize := range []int{1024, 4096, 16 << 10} {
			path := filepath.Join(t.TempDir(), "store.db")
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize, NoFreelistSync: r.IntN(2) == 0})
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				if err := db.Update(func(tx *bbolt.Tx) error {
					b, err := tx.CreateBucketIfNotExists(bucket)
					for range records {
						k := key()
						err = errors.Join(err, b.Delete(key()), b.Put(k, seal(nil, k, make([]byte, r.IntN(2*pageSize)/(1+r.IntN(40))))))
					}
					for _, w := range newIdentity() {
						err = errors.Join(err, b.Put(w.Key, seal(nil, w.Key, w.Value)))
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			want, got := readerOf(t, path, OpenReadOnly), readerOf(t, path, OpenToQuery)
			if want.Version() != got.Version() {
				t.Errorf("version %d, want %d", got.Version(), want.Version())
			}
			for range 200 {
				k, to, down := key(), key(), r.IntN(2) == 0
				a, aerr := want.Get(k)
				b, berr := got.Get(k)
				if aerr != nil || berr != nil || !bytes.Equal(a, b) || (a == nil) != (b == nil) {
					t.Fatalf("%s is %q, want %q (%v, %v)", k, b, a, berr, aerr)
				}
				if r.IntN(5) == 0 {
					to = nil
				}
				most := 1 + r.IntN(200)
				if r.IntN(20) == 0 {
					most = records
				}
				if a, b := listed(t, want.Range, k, to, down, most), listed(t, got.Range, k, to, down, most); a != b {
					t.Fatalf("range from %s to %s, down %v, is\n%s, want\n%s", k, to, down, b, a)
				}
				if a, b := listed(t, want.Skim, k, to, down, most), listed(t, got.Skim, k, to, down, most); a != b {
					t.Fatalf("skim from %s to %s, down %v, is\n%s, want\n%s", k, to, down, b, a)
				}
			}
		}
	}
}

// readerOf opens the store at path with the function open, and returns a reader. The reader and the store are closed
// when t ends.
func readerOf(t *testing.T, path string, open func(string, Options) (*DB, error)) Reader {
	t.Helper()
	db, err := open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := db.backend.Reader()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// listed returns the first records of a range as text. The argument most is the maximum number of records.
func listed(t *testing.T, read func(from, to Key, down bool, yield func(Key, []byte) bool) error, from, to Key, down bool, most int) string {
	t.Helper()
	var text strings.Builder
	if err := read(from, to, down, func(k Key, v []byte) bool {
		_, _ = fmt.Fprintf(&text, "%s=%x\n", k, v)
		most--
		return most > 0
	}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestAStoreThatIsQueriedIsVerifiedAsFarAsItIsRead(t *testing.T) {
	t.Parallel()
	whole := grown(t)
	want := contentOf(t, whole)
	for name, damage := range structuralDamage(t, whole) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path, damage(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			if harmless := map[string]bool{
				"a page within another": true, "no list of free pages": true, "a used page that is free": true, "too many free pages": true,
			}; harmless[name] {
				readAll(t, path, want)
				if err := checked(path); !errors.Is(err, ErrCorrupt) {
					t.Errorf("a check of the whole store: %v", err)
				}
				return
			}
			untouched(t, path, ErrCorrupt, func(path string, o Options) (*DB, error) {
				db, err := OpenToQuery(path, o)
				if err != nil {
					return nil, err
				}
				err = db.View(func(tx *Tx) error { return checkRecords(tx) })
				if err != nil && !errors.Is(db.Err(), ErrCorrupt) {
					t.Errorf("the store can still be used: %v", db.Err())
				}
				if again := db.View(func(*Tx) error { return nil }); err != nil && again == nil {
					t.Error("after a View has found damage, the next View succeeds")
				}
				return db, errors.Join(err, db.Close())
			})
		})
	}
}

// checked checks the whole store at path.
func checked(path string) error {
	db, err := OpenToQuery(path, Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.Check(), db.Close())
}

// contentOf returns the records of a store, given the bytes of its file.
func contentOf(t *testing.T, file []byte) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	if err := readerOf(t, path, OpenReadOnly).Range(nil, nil, false, func(k Key, v []byte) bool {
		content[string(k)] = string(v)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return content
}

// readAll reads the store at path in all ways, and compares the records with want. It reports whether damage was
// found. It does not compare a record for which [notTheValue] returns true; the key of such a record need not be in
// want.
func readAll(t *testing.T, path string, want map[string]string) (found bool) {
	t.Helper()
	db, err := OpenToQuery(path, Options{})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotStore) {
			t.Errorf("%v", err)
		}
		return true
	}
	r, err := db.backend.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(r.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}()
	broken := 0 // records for which notTheValue returns true
	read := func(name string, err error, got map[string]string) {
		t.Helper()
		if found = found || err != nil || broken > 0; err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		for k, v := range want {
			if w, ok := got[k]; ok && w != v || !ok && broken == 0 {
				t.Errorf("%s: %s is %.50q, want %.50q", name, Key(k), w, v)
			}
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				t.Errorf("%s: %s does not exist", name, Key(k))
			}
		}
	}
	for _, down := range []bool{false, true} {
		got := map[string]string{}
		err := r.Range(nil, nil, down, func(k Key, v []byte) bool {
			if notTheValue(k, v) {
				broken++
			} else {
				got[string(k)] = string(v)
			}
			return true
		})
		read("a range", err, got)
		skimmed := map[string]string{}
		err = r.Skim(nil, nil, down, func(k Key, v []byte) bool {
			if _, ok := got[string(k)]; ok {
				skimmed[string(k)] = string(v)
			}
			return true
		})
		read("a skim", err, skimmed)
	}
	for k, v := range want {
		got, err := r.Get(Key(k))
		switch {
		case err != nil:
			read("a key", err, nil)
		case got == nil && broken == 0: // structural damage would cause an error, and a damaged key is counted in broken
			t.Errorf("%s is missing", Key(k))
		case got != nil && !notTheValue(Key(k), got) && string(got) != v:
			t.Errorf("%s is %.50q, want %.50q", Key(k), got, v)
		}
	}
	return found
}

// notTheValue reports whether a reader can see that v is not the value that was stored under k. A reader sees this if
// the checksum of v does not match, or if the mark of the checksum is damaged, so that v is not JSON.
func notTheValue(k Key, v []byte) bool {
	return damageOf(k, v) != nil || len(v) > 0 && !unsealed(k.Table(), v[0]) || !tables[k.Table()].raw && !json.Valid(v)
}

// TestADamagedStoreIsNeverReadWrongly damages copies of a file, each in one random page, and reads each copy in
// all ways. Each read must return an undamaged record, or report damage. The test skips copies in which the number of
// the root page is damaged, because nothing else in the file says which page is the root.
func TestADamagedStoreIsNeverReadWrongly(t *testing.T) {
	t.Parallel()
	whole := grown(t)
	want, size := contentOf(t, whole), os.Getpagesize()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "store.db")
	found := 0
	for range 300 {
		b := bytes.Clone(whole)
		page := r.IntN(len(b) / size)
		p := b[page*size : (page+1)*size]
		at := r.IntN(size)
		switch r.IntN(4) {
		case 0:
			p[at] ^= 1 << r.IntN(8)
		case 1: // the beginning of a page has its number, the number of its elements, and their headers
			p[at%256] = byte(r.Uint32())
		case 2:
			clear(p[at:min(at+512, size)])
		case 3:
			copy(p, whole[r.IntN(len(b)/size)*size:][:size])
		}
		if !bytes.Equal(rootOf(b), rootOf(whole)) {
			continue
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if readAll(t, path, want) {
			found++
		}
		if t.Failed() {
			t.Fatalf("page %d, byte %d", page, at)
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

// rootOf returns the value of the store's bucket, which has the number of the root page; nil if the bucket cannot be
// found.
func rootOf(file []byte) []byte {
	v := &verifier{verifiedFile: verifiedFile{file: bytes.NewReader(file), size: int64(len(file))}}
	if err := v.readMeta(); err != nil {
		return nil
	}
	value, err := v.buckets()
	if err != nil {
		return nil
	}
	return value
}

// TestABranchPageThatLeadsPastAKeyIsDamage changes, in the root page, the key of the element that leads to the page
// of a record. Because of the changed key, a search for that record visits another page. The search must return
// ErrCorrupt.
func TestABranchPageThatLeadsPastAKeyIsDamage(t *testing.T) {
	t.Parallel()
	b := grown(t)
	root, _, err := bucketRoot(rootOf(b))
	if err != nil {
		t.Fatal(err)
	}
	p := b[int(root)*os.Getpagesize():] //nolint:gosec // it is small
	k := bytes.Clone(elementOf(p, 2).key)
	elementOf(p, 2).key[len(k)-1]++
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := OpenToQuery(path, Options{})
	if err == nil {
		err = errors.Join(db.View(func(tx *Tx) error {
			if tx.Get(k) == nil {
				return fmt.Errorf("%s is missing: %w", Key(k), tx.err)
			}
			return nil
		}), db.Close())
	}
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "; restore a snapshot") {
		t.Errorf("want damage, the path and what to do:\n%v", err)
	}
}
