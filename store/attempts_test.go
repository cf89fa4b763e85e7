package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"addon-operator/workflow/graph"
)

// excessAttempts returns the attempts in db that can be deleted.
func excessAttempts(t *testing.T, db *DB) (a *Attempts) {
	t.Helper()
	if err := db.View(func(tx *Tx) (err error) {
		a, err = ExcessAttempts(tx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestARunThatStaysOpenKeepsItsFirstAndLastAttempts(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	const failures = 40_000 // a task that is tried every 30 s fails about this often in 14 days
	fails, other := graph.Subject{Module: "fails"}, graph.Subject{Module: "other"}
	add := func(tx *Tx, run uint64, s graph.Subject, try int) error {
		return AddRecord(tx, Record{
			Run: run, Node: "module-run", Subject: s, Queue: "main", State: Failed, Try: try, Error: strings.Repeat("e", 200),
		})
	}
	for try := 1; try <= failures; {
		if err := db.Update(func(tx *Tx) error {
			for ; try <= failures && !tx.Spent(); try++ {
				if err := add(tx, 1, fails, try); err != nil {
					return err
				}
			}
			return Save(tx, RunKey(1), Run{ID: 1, Open: 1})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Update(func(tx *Tx) error {
		for try := range 50 {
			if err := add(tx, 1, other, try+1); err != nil {
				return err
			}
		}
		for try := range 200 { // run 2 has ended, so it keeps all attempts
			if err := add(tx, 2, fails, try+1); err != nil {
				return err
			}
		}
		return Save(tx, RunKey(2), Run{ID: 2, Ended: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	forget := func() (freed int64) {
		t.Helper()
		a := excessAttempts(t, db)
		for more := true; more; {
			if err := db.Update(func(tx *Tx) error {
				n, again, err := a.Forget(tx)
				freed, more = freed+n, again
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		return freed
	}
	check := func(last int) {
		t.Helper()
		var tries []int
		omitted, others, ended := 0, 0, 0
		if err := db.View(func(tx *Tx) error {
			for r, err := range RecordsOf(tx, 1) {
				if err != nil {
					return err
				}
				omitted += r.Omitted
				if r.Subject == fails {
					tries = append(tries, r.Try)
				} else {
					others++
				}
			}
			for range RecordsOf(tx, 2) {
				ended++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(tries) != 1+keptAttempts || tries[0] != 1 || tries[1] != last-keptAttempts+1 || tries[keptAttempts] != last {
			t.Errorf("%d attempts are kept, %d to %d of %d", len(tries), tries[0], tries[len(tries)-1], last)
		}
		if omitted+len(tries) != last || others != 50 || ended != 200 {
			t.Errorf("%d attempts are counted as forgotten, %d of another module and %d of another run are kept", omitted, others, ended)
		}
	}
	if freed := forget(); freed < (failures-200)*200 {
		t.Errorf("%d bytes were freed", freed)
	}
	check(failures)
	if err := db.Update(func(tx *Tx) error {
		for try := range 120 {
			if err := add(tx, 1, fails, failures+try+1); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	forget()
	check(failures + 120)
	if freed := forget(); freed != 0 {
		t.Errorf("%d bytes more were freed", freed)
	}
}

func TestAttemptsAreForgottenBesideUnreadableRecords(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	const attempts = keptAttempts + 10
	mustUpdate(t, db, func(tx *Tx) error {
		for try := range attempts {
			if err := AddRecord(tx, Record{Run: 1, Node: "n", Queue: "q", Try: try + 1}); err != nil {
				return err
			}
		}
		n := 0
		for k := range tx.Range(At(History).Uint(1)) {
			if n++; n == 3 || n == 50 {
				tx.Put(k, []byte("7"))
			}
		}
		tx.Put(RunKey(2), []byte("7"))
		return Save(tx, RunKey(1), Run{ID: 1, Open: 1})
	})
	a := excessAttempts(t, db)
	mustUpdate(t, db, func(tx *Tx) error {
		freed, more, err := a.Forget(tx)
		if freed == 0 || more {
			t.Errorf("%d bytes are freed, more %t", freed, more)
		}
		return err
	})
	var tries []int
	unreadable, omitted := 0, 0
	if err := db.View(func(tx *Tx) error {
		for r, err := range RecordsOf(tx, 1) {
			if err != nil {
				unreadable++
				continue
			}
			tries, omitted = append(tries, r.Try), omitted+r.Omitted
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// Of the 108 readable attempts, the first and the latest 100 are kept.
	if len(tries) != 1+keptAttempts || tries[0] != 1 || tries[1] != 10 || unreadable != 2 || omitted != 7 {
		t.Errorf("%d attempts are kept, the second is attempt %d; %d are unreadable, %d are counted as omitted", len(tries), tries[1], unreadable, omitted)
	}
}

func TestAttemptsOfOtherStepsAreCountedApart(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	nginx := graph.Subject{Module: "nginx"}
	steps := []Record{
		{Run: 1, Node: "n", Subject: nginx, Queue: "q"},
		{Run: 1, Node: "other", Subject: nginx, Queue: "q"},
		{Run: 1, Node: "n", Queue: "q"},
		{Run: 1, Node: "n", Subject: nginx, Queue: "other"},
		{Run: 2, Node: "n", Subject: nginx, Queue: "q"},
	}
	mustUpdate(t, db, func(tx *Tx) error {
		for range 1 + keptAttempts {
			for _, r := range steps {
				if err := AddRecord(tx, r); err != nil {
					return err
				}
			}
		}
		return errors.Join(Save(tx, RunKey(1), Run{ID: 1, Open: 1}), Save(tx, RunKey(2), Run{ID: 2, Open: 1}))
	})
	mustUpdate(t, db, func(tx *Tx) error {
		a, err := ExcessAttempts(tx)
		if err != nil {
			return err
		}
		if freed, more, err := a.Forget(tx); freed != 0 || more || err != nil {
			t.Errorf("%d bytes are freed, more %t, %v", freed, more, err)
		}
		return nil
	})
}

func TestForgottenAttemptsAreForgottenAgainAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	mustUpdate(t, db, func(tx *Tx) error {
		for range keptAttempts + 5 {
			if err := AddRecord(tx, Record{Run: 1, Node: "n", Queue: "q"}); err != nil {
				return err
			}
		}
		return Save(tx, RunKey(1), Run{ID: 1, Open: 1})
	})
	a := excessAttempts(t, db)
	failed := errors.New("of the test")
	var freed [2]int64
	for i, end := range []error{failed, nil} {
		if err := db.Update(func(tx *Tx) (err error) {
			freed[i], _, err = a.Forget(tx)
			return errors.Join(err, end)
		}); !errors.Is(err, end) {
			t.Fatal(err)
		}
	}
	if freed[0] == 0 || freed[0] != freed[1] || countIn(t, db, History) != 1+keptAttempts {
		t.Errorf("%d bytes are freed by the failed transaction, %d by the next; %d records are left", freed[0], freed[1], countIn(t, db, History))
	}
}
