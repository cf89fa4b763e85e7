package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
)

func (t trial) survives() {
	db := t.open()
	if db.Epoch() != 1 || db.ID() == "" {
		t.Errorf("first open: epoch %d, id %q", db.Epoch(), db.ID())
	}
	id := db.ID()
	t.write(db, "a", "1", "b", "2", "c", "3")
	t.write(db, "b", "-", "c", "4")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = t.open()
	t.holds(db, "a=1", "c=4")
	if db.Epoch() != 2 || db.ID() != id {
		t.Errorf("second open: epoch %d, id %q, was %q", db.Epoch(), db.ID(), id)
	}
}

func (t trial) ordered() {
	db := t.open()
	prefix := store.At(store.Metrics)
	if err := db.Update(func(tx *store.Tx) error {
		for _, n := range []uint64{300, 2, 1 << 63, 1, 256, 1<<64 - 1, 0} {
			tx.Put(prefix.Uint(n), []byte("0"))
		}
		tx.Put(store.At(store.Buckets), []byte("0"))
		tx.Put(store.At(store.Releases), []byte("0"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		var up, down []uint64
		for k := range tx.Range(prefix) {
			p, _ := k.Parts()
			up = append(up, p.Uint())
		}
		for k := range tx.Backwards(prefix) {
			p, _ := k.Parts()
			down = append(down, p.Uint())
		}
		var skimmed []uint64
		for k, v := range tx.Skim(prefix) {
			p, _ := k.Parts()
			skimmed = append(skimmed, p.Uint())
			if string(v) != "0" {
				t.Errorf("skimmed %s=%q", k, v)
			}
		}
		if !slices.Equal(skimmed, up) {
			t.Errorf("skimmed %v, ranged over %v", skimmed, up)
		}
		if want := []uint64{0, 1, 2, 256, 300, 1 << 63, 1<<64 - 1}; !slices.Equal(up, want) {
			t.Errorf("upwards %v", up)
		}
		slices.Reverse(down)
		if !slices.Equal(up, down) {
			t.Errorf("upwards %v, downwards reversed %v", up, down)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (t trial) bounded() {
	db := t.open()
	t.write(db, "a", "1", "b", "2", "c", "3", "d", "4")
	if err := db.View(func(tx *store.Tx) error {
		for _, c := range []struct {
			from store.Key
			want string
		}{
			{name("b"), "b c d"},
			{append(name("b"), 0), "c d"},
			{store.At(store.Modules), "a b c d"},
			{store.At(store.Meta), "a b c d"},
			{store.At(store.Releases), ""},
			{nil, "a b c d"},
		} {
			var got []string
			for k := range tx.RangeFrom(store.At(store.Modules), c.from) {
				p, _ := k.Parts()
				got = append(got, p.Str())
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("from %s: %q, want %q", c.from, s, c.want)
			}
		}
		n := 0
		for range tx.Range(name("b")) {
			n++
		}
		for range tx.Range(store.At(store.Modules)) {
			n++
			break
		}
		if n != 2 {
			t.Errorf("a range of one key and a range that stops at its first key visited %d keys, want 2", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (t trial) ownWrites() {
	db := t.open()
	t.write(db, "a", "1", "b", "2", "c", "3")
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(name("b"), []byte("20"))
		tx.Delete(name("c"))
		tx.Put(name("d"), []byte("40"))
		tx.Put(name("e"), []byte("50"))
		tx.Delete(name("e"))
		tx.Delete(name("never"))
		if diff := cmp.Diff([]string{"a=1", "b=20", "d=40"}, list(tx)); diff != "" {
			t.Errorf("within the transaction (-want +got):\n%s", diff)
		}
		if v := tx.Get(name("b")); string(v) != "20" {
			t.Errorf("b is %q", v)
		}
		if v := tx.Get(name("c")); v != nil {
			t.Errorf("c is %q", v)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.holds(db, "a=1", "b=20", "d=40")
}

func (t trial) writeAhead() {
	db := t.open()
	t.write(db, "b", "1", "d", "1", "f", "1")
	for _, down := range []bool{false, true} {
		if err := db.Update(func(tx *store.Tx) error {
			var seen []string
			visit := tx.Range
			if down {
				visit = tx.Backwards
			}
			for k := range visit(store.At(store.Modules)) {
				p, _ := k.Parts()
				s := p.Str()
				seen = append(seen, s)
				tx.Delete(k) // the key itself
				if s == "b" || s == "f" {
					tx.Put(name("a"), nil) // behind or ahead
					tx.Put(name("c"), nil)
					tx.Put(name("e"), nil)
					tx.Put(name("g"), nil)
					tx.Delete(name("d")) // ahead, stored
				}
				if s == "c" || s == "e" {
					tx.Delete(name("a"))
					tx.Delete(name("g"))
					if s == "c" != down {
						tx.Delete(name("e"))
						tx.Delete(name("c"))
					}
				}
			}
			want := "b c f g"
			if down {
				want = "f e b a"
			}
			if got := strings.Join(seen, " "); got != want {
				t.Errorf("down %t: visited %q, want %q", down, got, want)
			}
			return errors.New("undo")
		}); err == nil {
			t.Fatal("the error is lost")
		}
	}
}

func (t trial) empty() {
	db := t.open()
	key := store.At(store.Payloads).Uint(1)
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(key, nil)
		if tx.Get(key) == nil {
			t.Error("a transaction does not find the empty value that it has written")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		if tx.Get(key) == nil {
			t.Error("a later view does not find the empty value")
		}
		for range tx.Range(store.At(store.Payloads)) {
			return nil
		}
		t.Error("a range does not visit the empty value")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error { tx.Delete(key); return nil }); err != nil {
		t.Fatal(err)
	}
}

func (t trial) copied() {
	db := t.open()
	if err := db.Update(func(tx *store.Tx) error {
		k, v := name("a"), []byte("1")
		tx.Put(k, v)
		k[len(k)-1], v[0] = 'b', '2'
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.holds(db, "a=1")
	// A value that Get has returned must not be changed, but can be written under another key.
	for range 3 {
		if err := db.Update(func(tx *store.Tx) error {
			tx.Put(name("b"), tx.Get(name("a")))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	t.holds(db, "a=1", "b=1")
}

func (t trial) kept() {
	db := t.open()
	var pairs, want []string
	for i := range 500 {
		want = append(want, fmt.Sprintf("%03d", i))
		pairs = append(pairs, want[i], "1")
	}
	t.write(db, pairs...)
	var keys []store.Key
	if err := db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Modules)) {
			keys = append(keys, k)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		p, _ := k.Parts()
		got = append(got, p.Str())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after Close (-want +got):\n%s", diff)
	}
}

func (t trial) rolledBack() {
	db := t.open()
	t.write(db, "a", "1", "b", "2")
	cause := errors.New("no")
	if err := db.Update(func(tx *store.Tx) error {
		tx.OnCommit(func() { t.Error("OnCommit of a failed transaction") })
		tx.Delete(name("a"))
		tx.Put(name("b"), []byte("20"))
		tx.Put(name("c"), []byte("30"))
		return cause
	}); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
	t.holds(db, "a=1", "b=2")
	t.write(db, "d", "4")
	t.holds(db, "a=1", "b=2", "d=4")
}

func (t trial) panicked() {
	db := t.open()
	err := db.Update(func(tx *store.Tx) error {
		tx.Put(name("a"), []byte("1"))
		panic("a hole in the floor")
	})
	if err == nil || !strings.Contains(err.Error(), "a hole in the floor") || !strings.Contains(err.Error(), "exercise.go") {
		t.Errorf("the error names neither the panic nor its place: %v", err)
	}
	t.write(db, "b", "2")
	t.holds(db, "b=2")
}

func (t trial) isolated() {
	db := t.open()
	t.write(db, "a", "1", "b", "2")
	reading, written, read := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		read <- db.View(func(tx *store.Tx) error {
			close(reading)
			<-written
			if diff := cmp.Diff([]string{"a=1", "b=2"}, list(tx)); diff != "" {
				t.Errorf("the view has changed (-want +got):\n%s", diff)
			}
			return nil
		})
	}()
	<-reading
	for i := range 50 {
		t.write(db, "a", fmt.Sprint(i), "b", "-", fmt.Sprint("new", i), "0")
	}
	close(written)
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func (t trial) readOnly() {
	db := t.open()
	t.write(db, "a", "1")
	for claim, fn := range map[string]func(tx *store.Tx) error{
		"put":    func(tx *store.Tx) error { tx.Put(name("a"), []byte("2")); return nil },
		"delete": func(tx *store.Tx) error { tx.Delete(name("a")); return nil },
		"save":   func(tx *store.Tx) error { return store.Save(tx, name("a"), 2) },
	} {
		if err := db.View(fn); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s in a view: %v", claim, err)
		}
	}
	t.holds(db, "a=1")
}

func (t trial) fenced() {
	old := t.open()
	t.write(old, "a", "1")
	young, err := t.Open()
	if errors.Is(err, store.ErrLocked) {
		return // this backend lets only one process open it
	}
	if err != nil {
		t.Fatal(err)
	}
	checked(t, young)
	t.write(young, "a", "2")
	if err := old.Update(func(tx *store.Tx) error {
		tx.Put(name("a"), []byte("3"))
		return nil
	}); !errors.Is(err, store.ErrStale) || !errors.Is(err, store.ErrPoisoned) {
		t.Errorf("the commit of the old epoch: %v", err)
	}
	select {
	case <-old.Done():
	default:
		t.Error("the old epoch continues")
	}
	t.holds(young, "a=2")
}

func (t trial) limited() {
	const ops, size = 20_000, 16 << 20
	db := t.open()
	fill := func(records, bytes int) error {
		return db.Update(func(tx *store.Tx) error {
			for i := range records {
				k := store.At(store.Payloads).Uint(uint64(i))
				n := bytes/records - len(k)
				if i == records-1 {
					n += bytes % records
				}
				tx.Put(k, make([]byte, n))
			}
			return nil
		})
	}
	for _, c := range []struct {
		records, bytes int
		want           error
	}{
		{ops, 40 * ops, nil},
		{ops + 1, 40 * ops, store.ErrTooLarge},
		{100, size, nil},
		{100, size + 1, store.ErrTooLarge},
		{2, size, nil},
	} {
		if err := fill(c.records, c.bytes); !errors.Is(err, c.want) {
			t.Errorf("%d records of %d bytes together: %v, want %v", c.records, c.bytes, err, c.want)
		}
	}
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(name(strings.Repeat("x", 70_000)), nil)
		return nil
	}); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a key of 70,000 bytes: %v", err)
	}
	// Repair the store, because its check at the end of the test must accept it.
	if err := db.Update(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Payloads)) {
			tx.Delete(k)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (t trial) onCommit() {
	db := t.open()
	var ran []int
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(name("a"), []byte("1"))
		for i := range 3 {
			tx.OnCommit(func() {
				t.holds(db, "a=1")
				ran = append(ran, i)
			})
		}
		if ran != nil {
			t.Error("OnCommit ran before the commit")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		tx.OnCommit(func() { ran = append(ran, 3) }) // runs although the transaction writes nothing
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ran, []int{0, 1, 2, 3}) {
		t.Errorf("ran %v", ran)
	}
}

func (t trial) snapshot() {
	db := t.open()
	t.write(db, "a", "1", "b", "2")
	var b bytes.Buffer
	if err := db.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	t.write(db, "a", "10")
	restored := trial{t.T, t.Restore(t.T, b.Bytes())}.open()
	t.holds(restored, "a=1", "b=2")
	if restored.ID() != db.ID() || restored.Epoch() != db.Epoch()+1 {
		t.Errorf("restored %s of epoch %d from %s of epoch %d", restored.ID(), restored.Epoch(), db.ID(), db.Epoch())
	}
	t.write(restored, "c", "3")
	t.holds(db, "a=10", "b=2")
}

func (t trial) clock() {
	db := t.open()
	if err := db.Update(func(tx *store.Tx) error {
		if a, b := tx.Now(), tx.Now(); a.IsZero() || !a.Equal(b) {
			t.Errorf("%v, then %v", a, b)
		}
		key := store.At(store.Modules).Str("now")
		if err := store.Save(tx, key, tx.Now()); err != nil {
			t.Error(err)
		}
		if back, _, err := store.Load[time.Time](tx, key); err != nil || back != tx.Now() {
			t.Errorf("%v came back from its record as %v, %v", tx.Now(), back, err)
		}
		if a, b := tx.NextID(), tx.NextID(); a == 0 || b != a+1 || tx.Epoch() != db.Epoch() {
			t.Errorf("ids %d and %d of epoch %d", a, b, tx.Epoch())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (t trial) closed() {
	db := t.open()
	t.write(db, "a", "1")
	var kept *store.Tx
	if err := db.Update(func(tx *store.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	kept.Put(name("a"), nil)
	if v := kept.Get(name("a")); v != nil {
		t.Errorf("a transaction that has ended reads %q", v)
	}
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	<-db.Done()
	nothing := func(*store.Tx) error { return nil }
	for _, err := range []error{db.Err(), db.Update(nothing), db.View(nothing), db.Snapshot(new(bytes.Buffer)), db.Check()} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
