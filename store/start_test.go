package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A startsFile is a store in memory whose process starts, stops and crashes.
type startsFile struct {
	t   *testing.T
	mem *Memory
	db  *DB
}

// start opens the store with a new epoch, and records the start of the process.
func (f *startsFile) start() {
	f.t.Helper()
	var err error
	if f.db, err = OpenMemory(f.mem, Options{}); err != nil {
		f.t.Fatal(err)
	}
	f.update(func(tx *Tx) error {
		ends, _, err := Load[Ends](tx, EndsKey())
		if err != nil {
			return err
		}
		ends.Begin(tx.Epoch(), func(uint64) bool { return false })
		if err := Save(tx, EndsKey(), ends); err != nil {
			return err
		}
		return AddStart(tx, "v1", "pod-0")
	})
}

// stop ends the process cleanly.
func (f *startsFile) stop() {
	f.t.Helper()
	f.update(func(tx *Tx) error {
		ends, _, err := Load[Ends](tx, EndsKey())
		if err != nil {
			return err
		}
		ends.Ended = tx.Epoch()
		if err := EndStart(tx); err != nil {
			return err
		}
		return Save(tx, EndsKey(), ends)
	})
	f.crash()
}

// crash ends the process without a clean exit.
func (f *startsFile) crash() {
	f.t.Helper()
	if err := f.db.Close(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *startsFile) update(fn func(*Tx) error) {
	f.t.Helper()
	if err := f.db.Update(fn); err != nil {
		f.t.Fatal(err)
	}
}

// starts returns the starts, oldest first.
func (f *startsFile) starts() (all []Start) {
	f.t.Helper()
	if err := f.db.View(func(tx *Tx) error {
		for s, err := range StartsBackwards(tx) {
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

func TestStartsTellOfStopsAndCrashes(t *testing.T) {
	t.Parallel()
	f := &startsFile{t: t, mem: new(Memory)}
	f.start()
	f.stop()
	f.start()
	f.crash()
	f.start()
	type told struct {
		Epoch, Crashed uint64
		Stopped        bool
	}
	var got []told
	for _, s := range f.starts() {
		if got = append(got, told{s.Epoch, s.Crashed, !s.Ended.IsZero()}); s.Began.IsZero() || s.Version != "v1" || s.Pod != "pod-0" {
			t.Errorf("start %+v lacks its time, version or pod", s)
		}
	}
	if diff := cmp.Diff([]told{{1, 0, true}, {2, 0, false}, {3, 2, false}}, got); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

func TestNewestStartsAreKept(t *testing.T) {
	t.Parallel()
	f := &startsFile{t: t, mem: new(Memory)}
	f.start()
	f.update(func(tx *Tx) error {
		for epoch := range uint64(mostStarts + 10) {
			if err := Save(tx, startKey(epoch+100), Start{Epoch: epoch + 100}); err != nil {
				return err
			}
		}
		return nil
	})
	f.update(func(tx *Tx) error { tx.Delete(startKey(1)); return AddStart(tx, "", "") })
	all := f.starts()
	if len(all) != mostStarts || all[len(all)-1].Epoch != mostStarts+109 {
		t.Errorf("%d starts are kept, the last of epoch %d", len(all), all[len(all)-1].Epoch)
	}
}

func TestAnEndWithoutAReadableStartIsNotRecorded(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*Tx){
		"no record":            func(tx *Tx) { tx.Delete(startKey(tx.Epoch())) },
		"an unreadable record": func(tx *Tx) { tx.Put(startKey(tx.Epoch()), []byte("7")) },
	} {
		f := &startsFile{t: t, mem: new(Memory)}
		f.start()
		f.update(func(tx *Tx) error {
			damage(tx)
			before := string(tx.Get(startKey(tx.Epoch())))
			err := EndStart(tx)
			if after := string(tx.Get(startKey(tx.Epoch()))); after != before {
				t.Errorf("%s: %q became %q", name, before, after)
			}
			return err
		})
	}
}

func TestAStartIsRecordedBesideUnreadableOnes(t *testing.T) {
	t.Parallel()
	f := &startsFile{t: t, mem: new(Memory)}
	f.start()
	f.crash()
	f.start()
	f.update(func(tx *Tx) error {
		tx.Put(startKey(2), []byte("7"))
		tx.Put(EndsKey(), []byte("7"))
		return nil
	})
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.db, err = OpenMemory(f.mem, Options{}); err != nil {
		t.Fatal(err)
	}
	f.update(func(tx *Tx) error {
		tx.Put(EndsKey(), []byte("7")) // again, because Open has moved the record of the first update to another table
		return AddStart(tx, strings.Repeat("v", 2000), "pod-1")
	})
	all := f.starts()
	if len(all) != 2 || all[0].Epoch != 1 || all[1].Epoch != 3 || all[1].Crashed != 0 || all[1].Version != strings.Repeat("v", mostText)+"…" {
		t.Errorf("%d starts: %.100v", len(all), all)
	}
}

func TestTheStartOfAProcessThatBeginsAgainIsReplaced(t *testing.T) {
	t.Parallel()
	f := &startsFile{t: t, mem: new(Memory)}
	f.start()
	f.crash()
	f.start()
	f.update(func(tx *Tx) error { return AddStart(tx, "v2", "pod-0") })
	all := f.starts()
	if len(all) != 2 || all[1].Version != "v2" || all[1].Crashed != 1 {
		t.Errorf("starts %+v", all)
	}
}
