package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheTimeOfATransactionIsThatOfAStoredRecord(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	db, err := OpenMemory(new(Memory), Options{Clock: func() time.Time { clock = clock.Add(time.Second); return clock }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var written time.Time
	mustUpdate(t, db, func(tx *Tx) error {
		written = tx.Now()
		if again := tx.Now(); !again.Equal(written) {
			t.Errorf("the time of one transaction is %s and %s", written, again)
		}
		return Save(tx, ModuleKey("nginx"), Module{RanAt: written})
	})
	if err := db.View(func(tx *Tx) error {
		m, _, err := Load[Module](tx, ModuleKey("nginx"))
		if m.RanAt != written { // == also compares the location and the monotonic clock reading
			t.Errorf("%#v came back as %#v", written, m.RanAt)
		}
		if !tx.Now().After(written) {
			t.Errorf("the time of the next transaction is %s, not after %s", tx.Now(), written)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if now := db.Now(); now != now.Round(0).UTC() || !now.After(written) {
		t.Errorf("the time of the store is %#v", now)
	}
}

func TestAFencedStoreAcceptsNothingAndNotesACleanExit(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	why := errors.New("the lease is lost")
	db.Fence(why)
	db.Fence(errors.New("a later reason"))
	select {
	case <-db.Done():
	default:
		t.Error("Done is not closed")
	}
	for name, err := range map[string]error{
		"Err": db.Err(), "Update": db.Update(put("a", "1")), "View": db.View(func(*Tx) error { return nil }), "Check": db.Check(),
		"Snapshot": db.Snapshot(&strings.Builder{}),
	} {
		if !errors.Is(err, ErrFenced) || !errors.Is(err, why) || err.Error() != "store is fenced off: the lease is lost" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if next := opened(t, m); !next.ExitedCleanly(db.Epoch()) {
		t.Error("the end of the fenced process is treated as a crash")
	}
}

func TestAStoreThatIsOpenForReadingNotesNoExit(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	db, err := OpenReadOnly(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.NoteCleanExit(); err != nil || db.ExitedCleanly(db.Epoch()) {
		t.Errorf("%v; the end is clean: %t", err, db.ExitedCleanly(db.Epoch()))
	}
	if names := directory(t, filepath.Dir(path)); names != filepath.Base(path) {
		t.Errorf("the directory has the files %s", names)
	}
}

func TestTheNoteOfCleanExitsHasTheLatestEpochs(t *testing.T) {
	t.Parallel()
	note := exitsFile{filepath.Join(t.TempDir(), "store.db.clean-exits")}
	for epoch := range uint64(40) {
		if err := readCleanExits(note).add(epoch + 1); err != nil {
			t.Fatal(err)
		}
	}
	got := note.read()
	if len(got) != mostCleanExits || got[0] != 9 || got[mostCleanExits-1] != 40 {
		t.Errorf("the note has the epochs %v", got)
	}
	info, err := os.Stat(note.path)
	if err != nil || info.Size() != noteSize || info.Mode() != 0o600 {
		t.Errorf("the note is %v, %v", info, err)
	}
	before, err := os.ReadFile(note.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := readCleanExits(note).add(40); err != nil { // the epoch is in the note already
		t.Fatal(err)
	}
	if after, err := os.ReadFile(note.path); err != nil || string(after) != string(before) {
		t.Errorf("the note became %s, %v", after, err)
	}
}

func TestANoteOfCleanExitsThatIsNoNoteHasNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "text": "no note", "cut": "[1,2", "other": `{"epoch":1}`, "negative": "[-1]"} {
		note := exitsFile{filepath.Join(dir, name)}
		if err := os.WriteFile(note.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if epochs := note.read(); len(epochs) > 0 {
			t.Errorf("%s: %v", name, epochs)
		}
		if err := readCleanExits(note).add(7); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]uint64{7}, note.read()); diff != "" {
			t.Errorf("%s, after a clean exit (-want +got):\n%s", name, diff)
		}
	}
	if epochs := (exitsFile{filepath.Join(dir, "missing")}).read(); epochs != nil {
		t.Errorf("without a file: %v", epochs)
	}
	if err := (exitsFile{filepath.Join(dir, "no such directory", "note")}).write([]uint64{1}); err == nil {
		t.Error("a note was written to a directory that does not exist")
	}
}

func TestThePreparedNoteKeepsItsEpochs(t *testing.T) {
	t.Parallel()
	note := exitsFile{filepath.Join(t.TempDir(), "note")}
	if err := os.WriteFile(note.path, []byte("[3,4]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		note.prepare()
		if info, err := os.Stat(note.path); err != nil || info.Size() != noteSize {
			t.Errorf("the note is %v, %v", info, err)
		}
		if diff := cmp.Diff([]uint64{3, 4}, note.read()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestRecordsAreErasedInTransactionsOfBoundedSize(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	const each = 8000
	for _, table := range []Table{Cursors, Versions, Ticks} {
		mustUpdate(t, db, func(tx *Tx) error {
			for i := range uint64(each) {
				tx.Put(At(table).Str("a").Uint(i), []byte("1"))
			}
			tx.Put(At(table).Str("b"), []byte("1"))
			return nil
		})
	}
	before := m.Commits()
	if err := db.Erase(t.Context(), At(Cursors).Str("a"), At(Ticks)); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[Table]int{Cursors: 1, Versions: each + 1, Ticks: 0} {
		if n := countIn(t, db, table); n != want {
			t.Errorf("%d records are left in %s, want %d", n, table, want)
		}
	}
	if commits := m.Commits() - before; commits < 2 {
		t.Errorf("%d records are erased in %d commits", 2*each, commits)
	}
	mustUpdate(t, db, func(tx *Tx) error {
		if more := tx.Erase(At(Versions)); more {
			t.Error("a range that fits in the budget is not erased at once")
		}
		if more := tx.Erase(At(Versions)); more {
			t.Error("an erased range has more records")
		}
		if n := tx.Written().Ops; n != each+1 {
			t.Errorf("%d records were erased", n)
		}
		return nil
	})
}

func TestErasingEndsWithTheContextWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	mustUpdate(t, db, put("nginx", "1"))
	m.Before = func(int) error { return ErrFull }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Erase(ctx, At(Modules)); !errors.Is(err, ErrFull) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	m.Before = nil
	if got := value(t, db, "nginx"); got != "1" {
		t.Errorf("the record is %q after the failure", got)
	}
}

func TestALostSpanSaysWhyAndWhen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for want, c := range map[string]Copy{
		"the store is a copy, made in epoch 3, of one that was in use; it is unknown what happened from 2026-01-02T02:04:05Z to 2026-01-03T02:04:05Z": {
			Epoch: 3, At: at, Until: at.AddDate(0, 0, 1),
		},
		"the snapshot store.db.snapshot-1, made in epoch 3, was restored; it is unknown what happened from 2026-01-02T02:04:05Z to 2026-01-03T02:04:05Z": {
			Epoch: 3, At: at, Until: at.AddDate(0, 0, 1), Restored: "store.db.snapshot-1",
		},
	} {
		if got := c.Lost().String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAFileGetsAFreeSecondNameOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "first")
	write(path+".replaced.1", "another file")
	for range 2 { // the second call must return the name that the first call has given to the file
		aside, err := LinkAside(path, "replaced")
		if err != nil || aside != path+".replaced.2" {
			t.Errorf("the second name is %s, %v", aside, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(path, "second")
	if aside, err := LinkAside(path, "replaced"); err != nil || aside != path+".replaced.3" {
		t.Errorf("the second name of another file is %s, %v", aside, err)
	}
	for name, want := range map[string]string{"": "second", ".replaced.1": "another file", ".replaced.2": "first", ".replaced.3": "second"} {
		if got, err := os.ReadFile(path + name); err != nil || string(got) != want {
			t.Errorf("store.db%s has %q, %v", name, got, err)
		}
	}
	missing := filepath.Join(dir, "missing")
	if _, err := LinkAside(missing, "replaced"); !errors.Is(err, os.ErrNotExist) || !strings.HasSuffix(err.Error(), fmt.Sprintf("; move %s away by hand and repeat the command", missing)) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestOnlyRecordsThatTheNextStartCanWriteAgainAreReplaceable(t *testing.T) {
	t.Parallel()
	for _, k := range []Key{StartupKey(), TenureKey(), EndsKey(), ExclusiveKey(), AllowedPurgeKey(), LostSpanKey(), redactionKey()} {
		if !IsReplaceable(k) {
			t.Errorf("%s is not replaceable", k)
		}
	}
	for _, k := range []Key{nil, At(Meta), schemaKey(), idKey(), epochKey(), PreparationKey(), CopyKey(), ModuleKey("tenure"), StartupKey().Str("x")} {
		if IsReplaceable(k) {
			t.Errorf("%s is replaceable", k)
		}
	}
}

func TestAValueWithoutAChecksumIsRecognizedByItsFirstByte(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		table Table
		value string
		sound bool
	}{
		{Modules, `{"state":"on"}`, true},
		{Modules, `[1]`, true},
		{Modules, `"x"`, true},
		{Modules, `-1`, true},
		{Modules, `true`, true},
		{Modules, `null`, true},
		{Modules, "\x03{}", false},
		{Modules, "x", false},
		{Modules, "", true},
		{250, `{}`, true},
		{Payloads, "any part of a text", true},
		{Payloads, "\x02{", false},
		{Unique, string(At(Queues)), true},
		{Unique, string(At(Held)), true},
		{Events, string(At(Deferred)), true},
		{Events, string(At(Modules)), false},
		{Unique, "{}", false},
	} {
		k := At(test.table).Str("k")
		got, ok := unseal(k, []byte(test.value))
		if string(got) != test.value || ok != test.sound {
			t.Errorf("%q in %s: %q, %t", test.value, test.table, got, ok)
		}
		sealed := seal(nil, k, []byte(test.value))
		if got, ok := unseal(k, sealed); string(got) != test.value || !ok {
			t.Errorf("%q in %s came back as %q, %t", test.value, test.table, got, ok)
		}
		if got := unchecked(sealed); string(got) != test.value {
			t.Errorf("%q in %s is read without its checksum as %q", test.value, test.table, got)
		}
		if _, ok := unseal(At(test.table).Str("other"), sealed); ok {
			t.Errorf("%q in %s is accepted under another key", test.value, test.table)
		}
		for n := 1; n < sealSize; n++ {
			if got, ok := unseal(k, sealed[:n]); ok || damageOf(k, got) == nil || string(unchecked(sealed[:n])) != string(sealed[:n]) {
				t.Errorf("%d bytes of a sealed value are accepted", n)
			}
		}
	}
}

func TestNamesOfADumpReplaceOnlyTheListedFields(t *testing.T) {
	t.Parallel()
	names := map[string]string{"job": "run", "pos.place": "slot", "of": "parent", "of.pos.place": "slot"}
	for value, want := range map[string]string{
		`{"job":1,"b":2}`:                           `{"run":1,"b":2}`,
		`{"a":{"job":1},"place":3}`:                 `{"a":{"job":1},"place":3}`,
		`{"pos":{"place":1,"queue":"q"},"place":2}`: `{"pos":{"slot":1,"queue":"q"},"place":2}`,
		`{"of":{"pos":{"place":1},"job":2},"z":{}}`: `{"parent":{"pos":{"slot":1},"job":2},"z":{}}`,
		`{"list":[{"job":1}],"a":"job"}`:            `{"list":[{"job":1}],"a":"job"}`,
		`{"\u006aob":1}`:                            `{"run":1}`,
		`[{"job":1}]`:                               `[{"job":1}]`,
		`"job"`:                                     `"job"`,
		`{}`:                                        `{}`,
		`{"job":`:                                   `{"job":`,
	} {
		if got := string(withNames([]byte(value), names, "")); got != want {
			t.Errorf("%s became %s, want %s", value, got, want)
		}
	}
}

func TestOnlyACleanExitOfThisProcessInTheStoreIsARecordedEnd(t *testing.T) {
	t.Parallel()
	memory := new(Memory)
	for _, epoch := range []uint64{1, 2} {
		db, err := OpenMemory(memory, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := RecordedEnd(db); got != 0 {
			t.Errorf("before its end, process %d has recorded the end of epoch %d", epoch, got)
		}
		if err := db.Update(func(tx *Tx) error { return Save(tx, EndsKey(), Ends{Begun: epoch, Ended: epoch}) }); err != nil {
			t.Fatal(err)
		}
		if got := RecordedEnd(db); got != epoch {
			t.Errorf("process %d has recorded the end of epoch %d", epoch, got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if got := RecordedEnd(db); got != 0 {
			t.Errorf("a closed store has a record of the end of epoch %d", got)
		}
	}
}
