package store

import (
	"strings"
	"testing"
	"time"

	"addon-operator/workflow/graph"
)

func TestARunThatStaysOpenKeepsItsFirstAndLastAttempts(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	const failures = 40_000 // 14 days
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
		for try := range 200 { // has ended
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
		var a *Attempts
		if err := db.View(func(tx *Tx) (err error) {
			a, err = ExcessAttempts(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
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
