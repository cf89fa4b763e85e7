package store

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// opened opens a store in m, and closes the store at the end of the test.
func opened(t *testing.T, m *Memory) *DB {
	t.Helper()
	db, err := OpenMemory(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func put(key, value string) func(*Tx) error {
	return func(tx *Tx) error {
		tx.Put(At(Modules).Str(key), []byte(value))
		return nil
	}
}

func value(t *testing.T, db *DB, key string) string {
	t.Helper()
	var v string
	if err := db.View(func(tx *Tx) error {
		v = string(tx.Get(At(Modules).Str(key)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

// gate blocks commits. Each commit first sends a value to the test on the channel in the field begun. Then it waits
// until the test sends the result of the commit on the channel in the field through. If the field open is true, commits
// are not blocked.
type gate struct {
	begun, through chan error
	open           atomic.Bool
}

func gated(m *Memory) *gate {
	g := &gate{begun: make(chan error), through: make(chan error)}
	m.Before = func(int) error {
		if g.open.Load() {
			return nil
		}
		g.begun <- nil
		return <-g.through
	}
	return g
}

func TestWhatArrivesDuringACommitIsOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		g, before := gated(m), m.Commits()
		var wg sync.WaitGroup
		var order []int
		update := func(i int) {
			wg.Go(func() {
				if err := db.Update(func(tx *Tx) error {
					tx.OnCommit(func() { order = append(order, i) })
					return put(fmt.Sprint(i), "1")(tx)
				}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		update(0)
		<-g.begun
		for i := 1; i <= 100; i++ {
			update(i)
		}
		if order != nil {
			t.Errorf("%v called back before the first commit has returned", order)
		}
		g.through <- nil
		<-g.begun
		synctest.Wait()
		if !slices.Equal(order, []int{0}) {
			t.Errorf("%v called back while the second commit is under way", order)
		}
		g.through <- nil
		wg.Wait()
		if n := m.Commits() - before; n != 2 {
			t.Errorf("%d commits for one update and a hundred that came during its commit", n)
		}
		for i, v := range order {
			if v != i {
				t.Fatalf("called back in the order %v", order)
			}
		}
	})
}

func TestOneTransactionOfACommitSeesThoseBeforeItAndNotWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		if err := db.Update(put("a", "0")); err != nil {
			t.Fatal(err)
		}
		g := gated(m)
		var wg sync.WaitGroup
		seen := map[string]string{}
		update := func(name string, fn func(tx *Tx) error, want string) {
			wg.Go(func() {
				err := db.Update(func(tx *Tx) error {
					seen[name] = string(tx.Get(At(Modules).Str("a")))
					return fn(tx)
				})
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", name, err, want)
				}
			})
			synctest.Wait()
		}
		update("first", put("other", "1"), "")
		<-g.begun
		update("second", put("a", "1"), "")
		update("third", func(tx *Tx) error { return errors.Join(put("a", "2")(tx), errors.New("changed my mind")) }, "changed my mind")
		update("fourth", func(tx *Tx) error { tx.Delete(At(Modules).Str("a")); panic("fell") }, "fell")
		update("fifth", put("b", "1"), "")
		g.open.Store(true)
		g.through <- nil
		wg.Wait()
		want := map[string]string{"first": "0", "second": "0", "third": "1", "fourth": "1", "fifth": "1"}
		for name, v := range want {
			if seen[name] != v {
				t.Errorf("%s saw %q, want %q", name, seen[name], v)
			}
		}
		if a, b := value(t, db, "a"), value(t, db, "b"); a != "1" || b != "1" {
			t.Errorf("a is %q, b is %q", a, b)
		}
	})
}

func TestAFailedCommitFailsAllOfItAndPoisons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		g := gated(m)
		var wg sync.WaitGroup
		cause := errors.New("sync failed")
		ran := 0
		update := func(want error) {
			wg.Go(func() {
				err := db.Update(func(tx *Tx) error {
					ran++
					tx.OnCommit(func() { t.Error("called back without a commit") })
					return put(fmt.Sprint(ran), "1")(tx)
				})
				if !errors.Is(err, want) || !errors.Is(err, ErrPoisoned) {
					t.Errorf("%v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		update(cause)
		<-g.begun
		update(cause)
		update(cause)
		select {
		case <-db.Done():
			t.Error("done before the commit has failed")
		default:
		}
		g.through <- cause
		wg.Wait()
		<-db.Done()
		update(cause)
		wg.Wait()
		if ran != 1 {
			t.Errorf("%d functions ran, those behind the failed commit must not", ran)
		}
		if err := db.Err(); !errors.Is(err, ErrPoisoned) || !errors.Is(err, cause) {
			t.Errorf("the store says %v", err)
		}
		if err := db.View(func(*Tx) error { return nil }); !errors.Is(err, ErrPoisoned) {
			t.Errorf("a view: %v", err)
		}
		g.open.Store(true)
		if db := opened(t, m); value(t, db, "1") != "" {
			t.Error("what was not committed is there after a restart")
		}
	})
}

func TestACrashBehindTheCommitKeepsWhatNobodyWasTold(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	m.After = func(int) error { return errors.New("crash") }
	if err := db.Update(put("a", "1")); !errors.Is(err, ErrPoisoned) {
		t.Fatalf("%v", err)
	}
	m.After = nil
	if db := opened(t, m); value(t, db, "a") != "1" {
		t.Error("the commit is gone")
	}
}

func TestAFullDiskFailsTheCommitAndNothingElse(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	m.Before = func(int) error { return ErrFull }
	for range 3 {
		if err := db.Update(put("a", "1")); !errors.Is(err, ErrFull) || errors.Is(err, ErrPoisoned) {
			t.Fatalf("%v", err)
		}
	}
	if err := db.Err(); err != nil {
		t.Fatal(err)
	}
	m.Before = nil
	if value(t, db, "a") != "" {
		t.Error("a failed commit left something")
	}
	if err := db.Update(put("a", "2")); err != nil {
		t.Fatal(err)
	}
	if v := value(t, db, "a"); v != "2" {
		t.Errorf("a is %q", v)
	}
}

func TestATransactionThatDoesNotFitIsTheFirstOfTheNextCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fails := range []bool{false, true} {
			m := new(Memory)
			db := opened(t, m)
			g, before := gated(m), m.Commits()
			var wg sync.WaitGroup
			runs := 0
			update := func(name string, records int, want error) {
				wg.Go(func() {
					if err := db.Update(func(tx *Tx) error {
						runs++
						for i := range records {
							tx.Put(At(Metrics).Str(name).Uint(uint64(i)), []byte("0"))
						}
						return nil
					}); !errors.Is(err, want) {
						t.Errorf("fails %t: %s returned %v", fails, name, err)
					}
				})
				synctest.Wait()
			}
			var failure error
			if fails {
				failure = ErrFull
			}
			update("first", 1, nil)
			<-g.begun
			update("large", 15_000, failure)
			update("larger", 16_000, failure) // its function has seen the writes of "large", so it fails together with "large"
			update("last", 100, nil)
			g.through <- nil
			<-g.begun
			g.open.Store(true)
			g.through <- failure
			wg.Wait()
			if runs != 4 {
				t.Errorf("fails %t: %d runs of 4 functions", fails, runs)
			}
			if n := m.Commits() - before; n != 3 {
				t.Errorf("fails %t: %d commits", fails, n)
			}
			held := 0
			if err := db.View(func(tx *Tx) error {
				for range tx.Range(At(Metrics)) {
					held++
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if want := 1 + 15_000 + 16_000 + 100; !fails && held != want || fails && held != 101 {
				t.Errorf("fails %t: %d records", fails, held)
			}
		}
	})
}

func TestACommitDoesNotWaitForWhatKeepsArriving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		db.commits.limits.Ops = 10
		g, before := gated(m), m.Commits()
		var wg sync.WaitGroup
		update := func() {
			wg.Go(func() {
				if err := db.Update(put("a", "1")); err != nil {
					t.Error(err)
				}
			})
		}
		update()
		<-g.begun
		for range 25 {
			update()
		}
		synctest.Wait()
		g.open.Store(true)
		g.through <- nil
		wg.Wait()
		if n := m.Commits() - before; n != 4 {
			t.Errorf("1 and then 25 updates in groups of 10 are %d commits", n)
		}
	})
}

func TestATransactionThatWritesNothingCostsNoCommit(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	before := m.Commits()
	called := false
	if err := db.Update(func(tx *Tx) error {
		tx.OnCommit(func() { called = true })
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := m.Commits() - before; n != 0 || !called {
		t.Errorf("%d commits, called back %t", n, called)
	}
}

func TestAFunctionThatEndsItsGoroutineLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		g := gated(m)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := db.Update(put("a", "1")); err != nil {
				t.Error(err)
			}
		})
		<-g.begun
		for _, fn := range []func(*Tx) error{
			put("b", "1"),
			func(*Tx) error { runtime.Goexit(); return nil },
			put("c", "1"),
		} {
			wg.Go(func() {
				if err := db.Update(fn); !errors.Is(err, ErrPoisoned) {
					t.Errorf("%v", err)
				}
			})
			synctest.Wait()
		}
		g.open.Store(true)
		g.through <- nil
		wg.Wait()
		if err := db.Err(); !errors.Is(err, ErrPoisoned) {
			t.Errorf("the store says %v", err)
		}
	})
}

// unreadable is a backend whose readers cannot be opened.
type unreadable struct {
	Backend
	err error
}

func (b unreadable) Reader() (Reader, error) { return nil, b.err }

func TestNothingRunsWithoutAView(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	whole, cause := db.backend, errors.New("no map")
	db.backend = unreadable{whole, cause}
	run := func(*Tx) error {
		t.Error("the function ran")
		return nil
	}
	if err := db.View(run); !errors.Is(err, cause) {
		t.Errorf("a view: %v", err)
	}
	if err := db.Update(run); !errors.Is(err, cause) || !errors.Is(err, ErrPoisoned) {
		t.Errorf("an update: %v", err)
	}
	// A caller that became the leader just before the store was poisoned must also get ErrPoisoned.
	db.backend = whole
	db.commits.leading = true
	r := &request{fn: run}
	db.commits.commitGroup(r)
	if !errors.Is(r.err, ErrPoisoned) {
		t.Errorf("the next leader: %v", r.err)
	}
}

func TestAPanicInOnCommitPoisons(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	if err := db.Update(func(tx *Tx) error {
		tx.OnCommit(func() { panic("fell") })
		return put("a", "1")(tx)
	}); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "fell") {
		t.Errorf("%v", err)
	}
}

// TestAPanicInAFunctionOfTheOptionsPoisons lets a function of the Options panic during a commit for which another
// caller of Update waits. Both callers must get the panic as an error.
func TestAPanicInAFunctionOfTheOptionsPoisons(t *testing.T) {
	for name, result := range map[string]error{"Committed": nil, "Shortage": ErrFull} {
		synctest.Test(t, func(t *testing.T) {
			m, armed := new(Memory), false
			fall := func(function string) {
				if armed && function == name {
					panic("fell")
				}
			}
			db, err := OpenMemory(m, Options{Committed: func(Commit) { fall("Committed") }, Shortage: func(*Shortage) { fall("Shortage") }})
			if err != nil {
				t.Fatal(err)
			}
			g := gated(m)
			armed = true
			var wg sync.WaitGroup
			update := func(key string) {
				wg.Go(func() {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("%s, key %s: Update panicked: %v", name, key, p)
						}
					}()
					err := db.Update(put(key, "1"))
					if !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "panicked: fell") {
						t.Errorf("%s, key %s: %v", name, key, err)
					}
				})
				synctest.Wait()
			}
			update("a")
			<-g.begun
			update("b")
			g.through <- result
			wg.Wait()
			if err := db.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestCloseFailsWhatWaitsAndWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		g := gated(m)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := db.Update(put("a", "1")); err != nil {
				t.Error(err)
			}
		})
		<-g.begun
		wg.Go(func() {
			if err := db.Update(put("b", "1")); !errors.Is(err, ErrClosed) {
				t.Errorf("an update that waits: %v", err)
			}
		})
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- db.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("closed during a commit: %v", err)
		default:
		}
		g.open.Store(true)
		g.through <- nil
		if err := <-closed; err != nil {
			t.Error(err)
		}
		wg.Wait()
		if db := opened(t, m); value(t, db, "a") != "1" || value(t, db, "b") != "" {
			t.Error("the commit under way is lost, or one that failed is there")
		}
	})
}

func TestATransactionSaysHowMuchItHasWritten(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	if err := db.Update(put("a", "12345")); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Tx) error {
		check := func(want Limits) {
			if got := tx.Written(); got != want {
				t.Errorf("written %+v, want %+v", got, want)
			}
		}
		k := At(Values).Str("k")
		check(Limits{})
		tx.Put(k, []byte("123"))
		check(Limits{Ops: 1, Bytes: len(k) + 3})
		tx.Put(k, []byte("1"))
		check(Limits{Ops: 1, Bytes: len(k) + 1})
		tx.Delete(k)
		check(Limits{Ops: 1, Bytes: len(k)})
		tx.Delete(At(Values).Str("a"))
		check(Limits{Ops: 2, Bytes: 2 * len(k)})
		if want := (Limits{Ops: db.commits.limits.Ops / 2, Bytes: db.commits.limits.Bytes / 2}); tx.Budget() != want {
			t.Errorf("budget %+v, want %+v", tx.Budget(), want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		if got := tx.Written(); got != (Limits{}) {
			t.Errorf("a view has written %+v", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCommitIsReportedWhenAllThatFollowsFromItIsDone checks that the option Committed is called after the OnCommit
// functions. Readers of the store that wait for the report of a commit depend on this order.
func TestCommitIsReportedWhenAllThatFollowsFromItIsDone(t *testing.T) {
	t.Parallel()
	var order []string
	db, err := OpenMemory(new(Memory), Options{Committed: func(c Commit) {
		writes := c.Writes
		order = append(order, fmt.Sprintf("%d written", writes))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	order = nil // forget the commits that OpenMemory has made
	if err := db.Update(func(tx *Tx) error {
		tx.OnCommit(func() { order = append(order, "on commit") })
		tx.Put(ModuleKey("m"), []byte("{}"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"on commit", "1 written"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}
