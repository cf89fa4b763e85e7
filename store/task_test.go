package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestTasksComeInTheOrderOfTheirPlacesTheTopOfAStackFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pos := rapid.Custom(func(t *rapid.T) store.Pos {
			return store.Pos{
				Queue: rapid.SampledFrom([]string{"a", "b", "aa", "main"}).Draw(t, "queue"),
				Slot:  rapid.Uint64().Draw(t, "place"), Depth: rapid.Uint32().Draw(t, "height"),
			}
		})
		a, b := pos.Draw(t, "a"), pos.Draw(t, "b")
		if got, err := store.ParsePos(a.Key()); err != nil || got != a {
			t.Fatalf("%v came back as %v, %v", a, got, err)
		}
		if a.Queue != b.Queue {
			return
		}
		before := a.Slot < b.Slot || a.Slot == b.Slot && a.Depth > b.Depth
		if got := bytes.Compare(a.Key(), b.Key()) < 0; got != before {
			t.Fatalf("%v before %v: %t", a, b, got)
		}
	})
}

func TestQueueOfPlacesIsASliceOfStacks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		type place struct {
			at    uint64
			tasks []uint64 // numbers of the tasks in the slot; the top of the stack is last
		}
		var model []place
		rt.Repeat(map[string]func(*rapid.T){
			"tail": func(rt *rapid.T) {
				update(rt, db, func(tx *store.Tx) error {
					at, err := store.TailSlot(tx, "q")
					n := tx.NextID()
					model = append(model, place{at, []uint64{n}})
					return errors.Join(err, store.SaveTask(tx, &store.Task{ID: store.ID{N: n}, Pos: store.Pos{Queue: "q", Slot: at}}))
				})
			},
			"front": func(rt *rapid.T) {
				update(rt, db, func(tx *store.Tx) error {
					at, err := store.FrontSlot(tx, "q")
					n := tx.NextID()
					model = slices.Insert(model, 0, place{at, []uint64{n}})
					return errors.Join(err, store.SaveTask(tx, &store.Task{ID: store.ID{N: n}, Pos: store.Pos{Queue: "q", Slot: at}}))
				})
			},
			"finish": func(rt *rapid.T) {
				next := rapid.IntRange(0, 3).Draw(rt, "next")
				update(rt, db, func(tx *store.Tx) error {
					t, ok, err := store.Head(tx, "q")
					if err != nil || ok != (len(model) > 0) || !ok {
						return err
					}
					top := &model[0].tasks
					*top = (*top)[:len(*top)-1]
					store.DropTask(tx, t)
					for i := range next {
						n := tx.NextID()
						*top = append(*top, n)
						err = errors.Join(err, store.SaveTask(tx, &store.Task{
							ID: store.ID{N: n}, Pos: store.Pos{Queue: "q", Slot: t.Slot, Depth: t.Depth + uint32(i)},
						}))
					}
					if len(*top) == 0 {
						model = model[1:]
					}
					return err
				})
			},
			"": func(rt *rapid.T) {
				var want, got []uint64
				for _, p := range model {
					for _, n := range slices.Backward(p.tasks) {
						want = append(want, n)
					}
				}
				if err := db.View(func(tx *store.Tx) error {
					for t, err := range store.Tasks(tx, "q") {
						if err != nil {
							return err
						}
						got = append(got, t.ID.N)
					}
					return nil
				}); err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatal(diff)
				}
			},
		})
	})
}

// fataler has the methods that unit tests and property tests have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func update(t fataler, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func TestQueuesAreNamedWithoutReadingThem(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	update(t, db, func(tx *store.Tx) error {
		for _, q := range []string{"main", "a", "ab", "a b", "ü"} {
			for i := range uint64(3) {
				tx.Put(store.Pos{Queue: q, Slot: store.FirstSlot + i}.Key(), []byte(`"no task"`))
			}
		}
		var got []string
		for q, err := range store.AllQueues(tx) {
			if err != nil {
				return err
			}
			got = append(got, q)
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"a", "a b", "ab", "main", "ü"}, got); diff != "" {
			t.Error(diff)
		}
		for k := range tx.Range(store.At(store.Queues)) {
			tx.Delete(k)
		}
		return nil
	})
}

func TestIDsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := store.ID{Epoch: rapid.Uint64().Draw(t, "epoch"), N: rapid.Uint64().Draw(t, "n")}
		if got, err := store.ParseID(id.String()); err != nil || got != id {
			t.Fatalf("%v came back as %v, %v", id, got, err)
		}
	})
	for _, s := range []string{"", "1", "1-", "-1", "1-2-3", "a-b", "1 - 2", "18446744073709551616-1"} {
		if id, err := store.ParseID(s); err == nil {
			t.Errorf("%q is read as %v", s, id)
		}
	}
}

func TestLargePayloadsAndMembersStandApartAndGoWithTheTask(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	large := json.RawMessage(`"` + strings.Repeat("x", 2*store.PayloadChunk) + `"`)
	task := &store.Task{
		ID: store.ID{Epoch: 1, N: 1}, Pos: store.Pos{Queue: "q", Slot: store.FirstSlot}, Run: 1,
		Payload: large, FanOut: &store.FanOut{Len: 3}, Journal: true,
	}
	update(t, db, func(tx *store.Tx) error {
		err := errors.Join(store.SaveTask(tx, task), store.Save(tx, store.JournalKey(task.ID), "effects"), store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 1}))
		for i, m := range []string{"one", "two", "three"} {
			err = errors.Join(err, store.SaveItem(tx, task.ID, i, m))
		}
		return err
	})
	if err := db.Check(); err != nil {
		t.Error(err)
	}
	update(t, db, func(tx *store.Tx) error {
		got, ok, err := store.LoadTask(tx, task.Pos)
		if err != nil || !ok {
			t.Fatalf("%t, %v", ok, err)
		}
		if len(got.Payload) > 0 || got.Chunks != 3 {
			t.Errorf("the header holds %d bytes of the payload and names %d pieces", len(got.Payload), got.Chunks)
		}
		if err := store.LoadPayload(tx, got); err != nil || !bytes.Equal(got.Payload, large) {
			t.Errorf("the payload came back as %d bytes, %v", len(got.Payload), err)
		}
		if err := store.SaveTask(tx, got); err != nil {
			t.Error(err)
		}
		if m, err := store.LoadItem[string](tx, task.ID, 1); err != nil || m != "two" {
			t.Errorf("item 1 came back as %q, %v", m, err)
		}
		if _, err := store.LoadItem[string](tx, task.ID, 3); err == nil {
			t.Error("there is an item 3")
		}
		store.DropTask(tx, got)
		for _, table := range []store.Table{store.Queues, store.Payloads, store.Journal} {
			for k := range tx.Range(store.At(table)) {
				t.Errorf("%s is left", k)
			}
		}
		return store.Save(tx, store.RunKey(1), store.Run{ID: 1})
	})
}

func TestSmallPayloadStandsInTheHeader(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	update(t, db, func(tx *store.Tx) error {
		payload := json.RawMessage(`"` + strings.Repeat("x", store.InlinePayload-2) + `"`)
		task := &store.Task{ID: store.ID{Epoch: 1, N: 1}, Pos: store.Pos{Queue: "q", Slot: 1}, Payload: payload}
		if err := store.SaveTask(tx, task); err != nil {
			return err
		}
		got, _, err := store.LoadTask(tx, task.Pos)
		if err != nil || !bytes.Equal(got.Payload, payload) || got.Chunks != 0 {
			t.Errorf("a payload of %d bytes came back as %d bytes in %d pieces, %v", len(payload), len(got.Payload), got.Chunks, err)
		}
		store.DropTask(tx, got)
		return nil
	})
}

func TestHistoryIsTrimmedOldestFirstInPiecesAndNeverOfWhatIsOpen(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	day := func(n int) time.Time { return time.Date(2030, 1, n, 0, 0, 0, 0, time.UTC) }
	runs := []store.Run{{ID: 1, Ended: day(1)}, {ID: 2, Open: 1}, {ID: 3, Ended: day(3)}, {ID: 4, Ended: day(4)}, {ID: 5, Ended: day(1)}}
	update(t, db, func(tx *store.Tx) (err error) {
		for _, run := range runs {
			err = errors.Join(err, store.Save(tx, store.RunKey(run.ID), run))
			for range 3 {
				err = errors.Join(err, store.AddRecord(tx, store.Record{Run: run.ID, Node: "n"}))
			}
		}
		return errors.Join(err, store.SaveTask(tx, &store.Task{ID: store.ID{Epoch: 1, N: 99}, Pos: store.Pos{Queue: "q", Slot: 1}, Run: 2}))
	})
	left := func() (ids []uint64, records int) {
		if err := db.View(func(tx *store.Tx) error {
			for run, err := range store.RunsBackwards(tx) {
				if err != nil {
					return err
				}
				ids = append(ids, run.ID)
				for range store.RecordsOf(tx, run.ID) {
					records++
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return ids, records
	}
	trim := func(before time.Time, excess int64, limit int) (freed int64, more bool) {
		update(t, db, func(tx *store.Tx) (err error) {
			freed, more, err = store.TrimHistory(tx, before, excess, limit)
			return err
		})
		return freed, more
	}
	if _, more := trim(day(2), 0, 2); !more {
		t.Error("TrimHistory deleted two of three records, and reports that no more can be deleted")
	}
	if ids, records := left(); len(ids) != 5 || records != 13 {
		t.Errorf("runs %v with %d records are left after the first piece", ids, records)
	}
	freed, more := trim(day(2), 0, 100)
	if ids, records := left(); more || freed == 0 || !slices.Equal(ids, []uint64{5, 4, 3, 2}) || records != 12 {
		t.Errorf("after the runs that ended before day 2 were trimmed, runs %v with %d records are left; %d bytes freed, more %t", ids, records, freed, more)
	}
	trim(day(1), 1, 100)
	if ids, _ := left(); !slices.Equal(ids, []uint64{5, 4, 2}) {
		t.Errorf("runs %v are left when one byte was too much", ids)
	}
	trim(day(30), 1<<40, 100)
	if ids, _ := left(); !slices.Equal(ids, []uint64{5, 2}) {
		t.Errorf("runs %v are left, want the open one and the newest", ids)
	}
}
