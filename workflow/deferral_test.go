package workflow_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestDeferredTasksSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		large := strings.Repeat("x", 3000)
		w.raise(hookEvent("h", "0"))
		w.raise(hookEvent("h", large))
		w.expectTold("0 h 0")
		w.sleep(time.Second)
		w.restart()
		w.start(hookEvent("h", "2"))
		w.expectTold()
		w.raise(hookEvent("h", "3"))
		w.sleep(2 * time.Second)
		w.expectTold("3 h " + large + " 2 3")
		if n := len(w.later()); n != 0 {
			t.Errorf("%d tasks are still deferred", n)
		}
	})
}

func TestDeferredTasksFollowAChangedRateLimit(t *testing.T) {
	for _, c := range []struct {
		what      string
		limit     workflow.RateLimit
		restarted bool // whether the operator is restarted after the change; otherwise RateLimitsChanged is called
		want      string
	}{
		{"none", workflow.RateLimit{}, false, "1"},
		{"none at a restart", workflow.RateLimit{}, true, "1"},
		{"shorter", everyThree, false, "1"},
		{"shorter at a restart", everyThree, true, "1"},
		{"longer", workflow.RateLimit{Every: 48 * time.Hour, Burst: 1}, false, "86400"},
		{"longer at a restart", workflow.RateLimit{Every: 48 * time.Hour, Burst: 1}, true, "86400"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, limits := newLimited(t, workflow.RateLimit{Every: 24 * time.Hour, Burst: 1})
				w.mem.After = nil // because a check after each commit would take long with so many tasks
				limits["other"] = workflow.RateLimit{Every: time.Hour, Burst: 1}
				w.start()
				var events []workflow.Event
				all := ""
				for i := range 1500 {
					events = append(events, hookEvent("h", fmt.Sprint(i)))
					all += fmt.Sprintf(" %d", i)
				}
				w.raise(hookEvent("h", "x"), hookEvent("other", "y"))
				w.raise(hookEvent("other", "z"))
				w.raise(events...)
				w.sleep(time.Second)
				w.expectTold("0 h x", "0 other y")
				limits["h"] = c.limit
				if c.restarted {
					w.restart()
					w.start()
				} else {
					w.e.RateLimitsChanged()
				}
				synctest.Wait()
				w.raise(hookEvent("h", "1500"))
				w.sleep(100 * time.Hour)
				got, first := "", ""
				for _, line := range w.delivered() {
					if at, rest, ok := strings.Cut(line, " h "); ok {
						if got += " " + rest; first == "" {
							first = at
						}
					}
				}
				if got != all+" 1500" {
					t.Errorf("the events were delivered in this order: %s", got)
				}
				if first != c.want {
					t.Errorf("the first event was delivered at %q, want %q", first, c.want)
				}
			})
		})
	}
}

func TestTheCheckAfterAChangedRateLimitWaitsForAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, limits := newLimited(t, workflow.RateLimit{Every: 24 * time.Hour, Burst: 1})
		w.fragile = true
		limits["other"] = workflow.RateLimit{Every: time.Hour, Burst: 1}
		w.start()
		w.raise(hookEvent("h", "0"), hookEvent("other", "0"))
		w.raise(hookEvent("h", "1"))
		w.sleep(time.Second)
		w.expectTold("0 h 0", "0 other 0")
		limits["h"] = workflow.RateLimit{}
		var full atomic.Bool
		full.Store(true)
		w.mem.Before = func(int) error {
			if full.Load() {
				return store.ErrFull
			}
			return nil
		}
		checked := make(chan struct{})
		go func() { w.e.RateLimitsChanged(); close(checked) }()
		synctest.Wait()
		full.Store(false)
		w.raise(hookEvent("other", "1")) // is deferred, and sets the alarm for deferred tasks
		w.sleep(30 * time.Second)
		<-checked
		if told := w.delivered(); len(told) != 1 || !strings.HasSuffix(told[0], " h 1") {
			t.Errorf("in the 30 s after the disk had space again, these events were delivered: %q", told)
		}
	})
}

func TestBucketAheadOfTheClockIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		ahead := time.Now().Add(time.Hour)
		key := store.BucketKey(graph.Subject{Module: "m", Hook: "h"})
		if err := w.db.Update(func(tx *store.Tx) error { return store.Save(tx, key, store.Bucket{Full: ahead}) }); err != nil {
			t.Fatal(err)
		}
		w.raise(hookEvent("h", "0"))
		w.raise(hookEvent("h", "1"))
		w.expectTold("0 h 0")
		w.sleep(3 * time.Second)
		w.expectTold("3 h 1")
	})
}

func TestDeferredTaskOfAWrongClockIsDoneAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		w.raise(hookEvent("h", "0"))
		w.raise(hookEvent("h", "1"))
		w.expectTold("0 h 0")
		// Simulate that the clock was a day ahead when the task was deferred.
		if err := w.db.Update(func(tx *store.Tx) error {
			for task, err := range store.DeferredTasks(tx) {
				if err != nil {
					return err
				}
				tx.Delete(task.Key())
				task.Due = task.Due.Add(24 * time.Hour)
				return store.SaveOutOfQueue(tx, task)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.sleep(4 * time.Second)
		w.start()
		w.expectTold("4 h 1")
	})
}

func TestCancelingPendingTasksOfAModuleCancelsDeferredOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		w.raise(hookEvent("h", "0"))
		w.raise(hookEvent("h", strings.Repeat("x", 3000)), in("q", on("tick", "m", "h", "b")))
		w.ran()
		w.raise(on("retire", "m"))
		w.expect("retire m", "gone m")
		if n := len(w.later()); n != 0 {
			t.Errorf("%d tasks are still deferred", n)
		}
		w.sleep(time.Minute)
		w.expect()
		w.expectAllEnded()
	})
}

func TestWithdrawCancelsDeferredTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		w.raise(hookEvent("h", "0"))
		w.raise(about(hookEvent("h", "1"), "a"), about(hookEvent("h", "2"), "a"))
		w.withdraw("q", "m", "h", func(t *store.Task) bool { return string(t.Payload) == `"1"` })
		w.sleep(3 * time.Second)
		w.expectTold("0 h 0", "3 h 2")
	})
}

func TestDeferredTaskIsSkippedByAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		w.raise(hookEvent("h", "0"))
		w.raise(hookEvent("h", "1"))
		var id store.ID
		w.view(func(tx *store.Tx) error {
			for task := range store.DeferredTasks(tx) {
				id = task.ID
			}
			return nil
		})
		if err := w.e.Skip(id, "me", "no need"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		w.expectTold("0 h 0")
	})
}

func TestDeferredTaskIsRetriedByAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{Every: 24 * time.Hour, Burst: 1})
		w.start()
		for i := range 4 {
			w.raise(hookEvent("h", fmt.Sprint(i)))
		}
		w.expectTold("0 h 0")
		var last store.ID
		w.view(func(tx *store.Tx) error {
			for task, err := range store.DeferredTasks(tx) {
				if err != nil {
					return err
				}
				last = task.ID
			}
			return nil
		})
		if err := w.e.Retry(last, "me", ""); err != nil {
			t.Fatal(err)
		}
		w.expectTold("0 h 1 2 3")
		w.raise(hookEvent("h", "4"))
		w.expectTold()
		w.sleep(24 * time.Hour)
		w.expectTold("86400 h 4")
	})
}

// deferMany returns a fixture in which n events of hook h are deferred until the end of the first
// day. A rate limit with burst 1 has deferred them. Afterwards, the rate limit has the given burst.
func deferMany(t *testing.T, n, burst int) *fixture {
	t.Helper()
	limit := workflow.RateLimit{Every: 24 * time.Hour, Burst: 1}
	w, limits := newLimited(t, limit)
	w.unchecked()
	w.start()
	w.raise(hookEvent("h", "first"))
	for i := 0; i < n; i += 1000 {
		var events []workflow.Event
		for j := range 1000 {
			events = append(events, hookEvent("h", fmt.Sprint(i+j)))
		}
		w.raise(events...)
	}
	w.sleep(time.Hour)
	w.expectTold("0 h first")
	limit.Burst = burst
	limits["h"] = limit
	return w
}

// raiseAtCommits raises one event during each of the next three commits: "new 1", "new 2" and "new
// 3".
func (w *fixture) raiseAtCommits() {
	commits := 0
	w.mem.After = func(int) error {
		if commits++; commits <= 3 {
			event := hookEvent("h", fmt.Sprint("new ", commits))
			go func() { _ = w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, event) }) }()
		}
		return nil
	}
}

// expectOldFirst expects the n deferred events in their order, and three newer ones after them.
func expectOldFirst(t *testing.T, n int, got []string) {
	t.Helper()
	if len(got) != n+3 {
		t.Errorf("%d events were delivered, want %d", len(got), n+3)
	}
	for i, what := range got[:min(n, len(got))] {
		if what != fmt.Sprint(i) {
			t.Fatalf("event %d is %s", i, what)
		}
	}
}

// TestEventsThatAPersonRetriesAfterALargeBurstPrecedeNewerOnes retries more deferred events than
// one transaction can return to the queue. Between the transitions that return the retried events,
// newer events arrive, or the process is killed. All retried events must be delivered at once, in
// their order, and before the newer events.
func TestEventsThatAPersonRetriesAfterALargeBurstPrecedeNewerOnes(t *testing.T) {
	const deferred = 7000
	for _, burst := range []int{1, 10} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("burst %d, killed %t", burst, killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := deferMany(t, deferred, burst)
					var id store.ID
					w.view(func(tx *store.Tx) error {
						for task := range store.DeferredTasks(tx) {
							id = task.ID
						}
						return nil
					})
					if killed {
						commits := 0
						w.mem.Before = func(int) error {
							if commits++; commits > 1 {
								return errKilled
							}
							return nil
						}
						w.fragile = true
					} else {
						w.raiseAtCommits()
					}
					if err := w.e.Retry(id, "me", ""); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if killed {
						w.crash()
						w.unchecked()
						w.start(hookEvent("h", "new 1"), hookEvent("h", "new 2"))
						w.raise(hookEvent("h", "new 3"))
					}
					w.sleep(time.Minute)
					got := w.payloads()
					if len(got) < deferred {
						t.Errorf("%d events were delivered at once, want the %d that were deferred", len(got), deferred)
					}
					w.sleep(10 * 24 * time.Hour)
					expectOldFirst(t, deferred, append(got, w.payloads()...))
				})
			})
		}
	}
}

func TestEventsThatAreDueAfterALargeBurstPrecedeNewerOnes(t *testing.T) {
	const deferred = 7000
	for _, burst := range []int{1, 10} {
		t.Run(fmt.Sprintf("burst %d", burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := deferMany(t, deferred, burst)
				w.raiseAtCommits()
				w.sleep(20 * 24 * time.Hour)
				expectOldFirst(t, deferred, w.payloads())
			})
		})
	}
}
