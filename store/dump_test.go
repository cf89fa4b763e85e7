package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestADumpIsReadableAndKeepsSecrets(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	if err := db.Update(func(tx *Tx) error {
		tx.Put(At(Values).Str("nginx"), []byte(`{"password":"secret"}`))
		tx.Put(At(Modules).Str("nginx"), []byte(`{"state":"on","note":"a<b"}`))
		tx.Put(At(Queues).Str("main").Uint(7).Uint32(1), []byte(`{"id":"1-1"}`))
		tx.Put(At(Unique).Str("main").Str("run").Str("nginx"), At(Queues).Str("main").Uint(7).Uint32(1))
		tx.Put(At(Unique).Str("").Str("lifecycle").Str("nginx"), []byte(`{"id":"1-2","pos":{"queue":"main","place":7,"height":1}}`))
		tx.Put(At(Events).Str("main").Str("nginx").Str("a.sh").Str("pods").Str("lifecycle").Str("event").Uint(1).Uint(3), At(Queues).Str("main").Uint(8).Uint32(1))
		tx.Put(At(Payloads).Uint(1).Uint(2).Uint(0), []byte(`{"cut":"of`))
		tx.Put(append(At(Modules), 9, 9), []byte(`1`))
		tx.Put(Key{200, 1}, []byte(`"of a later version"`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	dump := func(tables ...Table) string {
		var b bytes.Buffer
		if err := Dump(db, &b, tables...); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	want := `{"table":"queues","key":["main",7,1],"redacted":true,"bytes":12}
{"table":"payloads","key":[1,2,0],"redacted":true,"bytes":10}
{"table":"unique","key":["","lifecycle","nginx"],"value":{"id":"1-2","pos":{"queue":"main","slot":7,"depth":1}}}
{"table":"unique","key":["main","run","nginx"],"value":"queues/main/7/1"}
{"table":"values","key":["nginx"],"redacted":true,"bytes":21}
{"table":"modules","key":["nginx"],"value":{"state":"on","note":"a<b"}}
{"table":"modules","key":["0x0d0909"],"value":1}
{"table":"events","key":["main","nginx","a.sh","pods","lifecycle","event",1,3],"value":"queues/main/8/1"}
{"table":"table(200)","key":["0xc801"],"redacted":true,"bytes":20}
`
	_, rest, _ := strings.Cut(dump(), `"key":["schema"],"value":3}`+"\n")
	secret := `{"table":"meta","key":["redaction"],"redacted":true,"bytes":57}` + "\n"
	if !strings.HasPrefix(rest, secret) || !strings.HasSuffix(dump(Meta), secret) {
		t.Errorf("the secret of redacted values: %s", dump(Meta))
	}
	rest = strings.TrimPrefix(rest, secret)
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("behind meta (-want +got):\n%s", diff)
	}
	want = `{"table":"values","key":["nginx"],"value":{"password":"secret"}}
{"table":"payloads","key":[1,2,0],"value":"{\"cut\":\"of"}
`
	if diff := cmp.Diff(want, dump(Values, Payloads)); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	if err := Dump(db, failing{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("into a closed pipe: %v", err)
	}
}

// A failing is a writer whose Write always returns an error.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestASnapshotOfAnUnusedStoreIsVerified(t *testing.T) {
	t.Parallel()
	path := made(t, 500)
	db, err := OpenReadOnly(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	damageLeaf(t, path, "000250")
	dir := t.TempDir()
	if err := db.SnapshotFile(filepath.Join(dir, "snapshot.db")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a snapshot of a damaged store: %v", err)
	}
	if names := directory(t, dir); names != "" {
		t.Errorf("the directory holds %s", names)
	}
}

func TestASnapshotFileIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	path := made(t, 500)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	snap := filepath.Join(t.TempDir(), "snapshot.db")
	for i := range 2 { // the second snapshot replaces the first
		if err := db.Update(put("a", []string{"1", "2"}[i])); err != nil {
			t.Fatal(err)
		}
		if err := db.SnapshotFile(snap); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(snap)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		s, err := OpenReadOnly(snap, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := value(t, s, "a"); got != []string{"1", "2"}[i] || s.ID() != db.ID() || s.Epoch() != db.Epoch() {
			t.Errorf("the snapshot holds %q, is %s of epoch %d", got, s.ID(), s.Epoch())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := db.SnapshotFile(filepath.Join(t.TempDir(), "missing", "s.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	if err := db.Snapshot(failing{}); err == nil {
		t.Error("no error from a pipe that is closed")
	}
	before, err := os.ReadFile(snap)
	if err != nil {
		t.Fatal(err)
	}
	damageLeaf(t, path, "000250")
	if err := db.SnapshotFile(snap); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a snapshot of a damaged store: %v", err)
	}
	after, err := os.ReadFile(snap)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the earlier snapshot is lost")
	}
	if names := directory(t, filepath.Dir(snap)); names != "snapshot.db" {
		t.Errorf("the directory holds %s", names)
	}
	// The page was damaged after the store was opened and verified. A transaction that reads the page also returns an
	// error.
	err = db.View(func(tx *Tx) error { return checkRecords(tx) })
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("a view of a damaged store: %v", err)
	}
	err = db.Update(func(tx *Tx) error {
		for k := range tx.Range(At(Modules)) {
			tx.Delete(k)
		}
		return nil
	})
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("an update of a damaged store: %v", err)
	}
	// If a transaction writes to the damaged page without reading it, the commit finds the damage.
	if err := db.Update(put("000250", "1")); !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrPoisoned) {
		t.Errorf("a commit to a damaged store: %v", err)
	}
}

// damageLeaf damages every leaf page of the file at path that contains the argument text.
func damageLeaf(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, size := 0, os.Getpagesize()
	for at := 2 * size; at+size <= len(b); at += size {
		p := b[at : at+size]
		if binary.NativeEndian.Uint16(p[8:]) == leafPage && bytes.Contains(p, []byte(text)) {
			if _, err := f.WriteAt([]byte{7, 7}, int64(at+8)); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	if n == 0 {
		t.Fatalf("no page holds %s", text)
	}
}

// An onWrite is a writer that calls a function at the first call of Write.
type onWrite struct {
	bytes.Buffer

	first func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	if w.first != nil {
		w.first()
		w.first = nil
	}
	return w.Buffer.Write(p)
}

// A transaction that is open while a pager waits for its user would keep the store from reusing space.
func TestADumpHasNoOpenTransactionWhileItsReaderIsSlow(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	record := []byte(`"` + strings.Repeat("x", 16<<10) + `"`)
	put := func(names ...string) {
		if err := db.Update(func(tx *Tx) error {
			for _, name := range names {
				tx.Put(At(Modules).Str(name), record)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	var stored []string
	for i := range 200 {
		stored = append(stored, fmt.Sprintf("%03d", i))
	}
	put(stored...)
	w := &onWrite{first: func() { put("written during the dump") }}
	if err := Dump(db, w, Modules); err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(w.String()) {
		_, name, _ := strings.Cut(line, `"key":["`)
		name, _, _ = strings.Cut(name, `"`)
		names = append(names, name)
	}
	if want := append(stored, "written during the dump"); !slices.Equal(names, want) {
		t.Errorf("the dump has the records %q", names)
	}
}
