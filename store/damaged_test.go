package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
)

func TestADamagedRecordIsMovedWithItsBytesAndReportedUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	id, key := store.ID{Epoch: 2, N: 7}, store.ModuleKey("nginx")
	want := store.Damaged{ID: id, Key: key, Value: []byte(`{"state":`), Error: "unexpected end", At: now}
	update(t, db, func(tx *store.Tx) error {
		tx.Put(key, want.Value)
		got, ok, err := store.MoveDamaged(tx, id, key, errors.New("unexpected end"))
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("moved: %t (-want +got):\n%s", ok, diff)
		}
		return err
	})
	update(t, db, func(tx *store.Tx) error {
		if tx.Get(key) != nil {
			t.Error("the record is still in its table")
		}
		if diff := cmp.Diff([]store.Damaged{want}, mustAll(t, store.AllDamaged(tx))); diff != "" {
			t.Errorf("damaged records (-want +got):\n%s", diff)
		}
		problems, err := store.AllProblems(tx)
		if err != nil || len(problems) != 1 {
			t.Fatalf("%d problems, %v", len(problems), err)
		}
		p := problems[0]
		if p.Kind != store.DamagedRecord || p.Object != "2-7" || !p.Since.Equal(now) ||
			p.Error != "record modules/nginx cannot be read and was moved to the table of damaged records: unexpected end" ||
			!slices.Equal(p.Command, []string{"task", "skip", "2-7", "--reason", "seen"}) || !strings.Contains(p.Fix, "addon-operator store dump damaged --show-secrets shows the bytes of the record") {
			t.Errorf("the problem is %+v", p)
		}
		if !store.ForgetDamaged(tx, id) || store.ForgetDamaged(tx, id) {
			t.Error("the record is not forgotten once")
		}
		return nil
	})
	view(t, db, func(tx *store.Tx) error {
		problems, err := store.AllProblems(tx)
		if left := mustAll(t, store.AllDamaged(tx)); len(left) > 0 || len(problems) > 0 || err != nil {
			t.Errorf("left are %v and %v, %v", left, problems, err)
		}
		return nil
	})
}

func TestAMissingRecordIsNotMoved(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		_, ok, err := store.MoveDamaged(tx, store.ID{Epoch: 1, N: 1}, store.ModuleKey("nginx"), errors.New("why"))
		if written := tx.Written(); ok || err != nil || written != (store.Limits{}) {
			t.Errorf("%t, %v, %+v written", ok, err, written)
		}
		return nil
	})
}

func TestADamagedTaskIsNamedByItsPosition(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]store.Key{
		"the task at slot 5, depth 2 of queue main": store.Pos{Queue: "main", Slot: 5, Depth: 2}.Key(),
		"record modules/nginx":                      store.ModuleKey("nginx"),
		"record queues/main":                        store.QueueKey("main"),
	} {
		if got := (store.Damaged{Key: k}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestPiecesOfATaskAreAssignedToIt(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	id := store.ID{Epoch: 3, N: 9}
	task := &store.Task{ID: id, Pos: store.Pos{Queue: "q", Slot: 1}, Payload: []byte(`"` + strings.Repeat("x", store.InlinePayload) + `"`)}
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(store.SaveTask(tx, task), store.SaveItem(tx, id, 0, "first"), store.SaveItem(tx, id, 41, "other"),
			store.Save(tx, store.JournalKey(id), "effects"), store.SaveNote(tx, id, "note"))
	})
	view(t, db, func(tx *store.Tx) error {
		want := map[store.Table][]store.PieceOf{
			store.Payloads: {{Task: id}, {Task: id, IsItem: true}, {Task: id, Item: 41, IsItem: true}},
			store.Journal:  {{Task: id}}, store.Notes: {{Task: id}},
		}
		for k := range tx.Range(nil) {
			p, ok := store.ParsePiece(k)
			pieces := want[k.Table()]
			if ok != (len(pieces) > 0) || ok && p != pieces[0] {
				t.Errorf("%s is a piece of %+v, %t", k, p, ok)
			}
			if ok {
				want[k.Table()] = pieces[1:]
			}
		}
		return nil
	})
	for _, k := range []store.Key{nil, store.At(store.Payloads), store.At(store.Payloads).Uint(1).Uint(2), store.At(store.Journal).Uint(1), {250, 1}} {
		if p, ok := store.ParsePiece(k); ok {
			t.Errorf("%s is a piece of %+v", k, p)
		}
	}
}

func TestADroppedItemLeavesTheOthersInTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		items := rapid.SliceOfN(rapid.StringMatching("[a-z]{1,3}"), 1, 8).Draw(rt, "items")
		next := rapid.IntRange(0, len(items)-1).Draw(rt, "next")
		i := rapid.IntRange(next, len(items)-1).Draw(rt, "dropped")
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		id := store.ID{Epoch: 1, N: 1}
		update(rt, db, func(tx *store.Tx) (err error) {
			for n := next; n < len(items); n++ {
				err = errors.Join(err, store.SaveItem(tx, id, n, items[n]))
			}
			return err
		})
		var got []string
		update(rt, db, func(tx *store.Tx) error {
			first := store.DropItem(tx, id, next, i)
			if first != next+1 {
				rt.Fatalf("the next item is %d, want %d", first, next+1)
			}
			for n := first; n < len(items); n++ {
				item, err := store.LoadItem[string](tx, id, n)
				if err != nil {
					return err
				}
				got = append(got, item)
			}
			if _, err := store.LoadItem[string](tx, id, next); !errors.As(err, new(*store.RecordError)) {
				rt.Fatalf("item %d is still there: %v", next, err)
			}
			return nil
		})
		if diff := cmp.Diff(append(slices.Clone(items[next:i]), items[i+1:]...), append([]string{}, got...)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestAnUnreadableItemCanBeDropped(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	id := store.ID{Epoch: 1, N: 1}
	update(t, db, func(tx *store.Tx) error {
		err := errors.Join(store.SaveItem(tx, id, 0, "a"), store.SaveItem(tx, id, 1, "b"), store.SaveItem(tx, id, 2, "c"))
		for k := range tx.Range(store.At(store.Payloads)) {
			if p, _ := store.ParsePiece(k); p.Item == 1 {
				tx.Put(k, []byte("?"))
			}
		}
		if next := store.DropItem(tx, id, 0, 1); next != 1 {
			t.Errorf("the next item is %d", next)
		}
		one, err1 := store.LoadItem[string](tx, id, 1)
		two, err2 := store.LoadItem[string](tx, id, 2)
		if one != "a" || two != "c" {
			t.Errorf("the items are %q and %q", one, two)
		}
		return errors.Join(err, err1, err2)
	})
}
