package workflow_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
)

// seen returns an event of the given kind for a version of an object. The payload of the event is
// the version.
func seen(kind, object string, version int) workflow.Event {
	ev := in("q", on("event", "m", "h", "b"))
	ev.Payload = json.RawMessage(fmt.Sprint(version))
	ev.Object = &store.ObjectRef{Event: kind, Kind: "ConfigMap", Name: object, UID: "uid-" + object}
	return ev
}

// heard returns the events delivered since the last call of heard, ran or took, as "kind object
// version". heard leaves out the events of objects whose names begin with "backlog", such as those
// that the method backlog adds.
func (w *fixture) heard() (out []string) {
	for _, n := range w.took() {
		for _, t := range n.task.Batch {
			if t.Object != nil && !strings.HasPrefix(t.Object.Name, "backlog") {
				out = append(out, fmt.Sprintf("%s %s %s", t.Object.Event, t.Object.Name, t.Payload))
			}
		}
	}
	return out
}

// backlog starts the engine, and adds n events of different objects to queue q, behind a task that
// runs until the returned function is called.
func (w *fixture) backlog(n int) (open func(workflow.Outcome, error)) {
	w.t.Helper()
	w.mem.After = nil // because checks of a long queue are slow; the check at the end remains
	open = w.gate("event m/other b")
	w.start(hookEvent("other", "x"))
	w.quietly(func(raise func(...workflow.Event)) {
		for i := range n {
			raise(seen("Added", fmt.Sprint("backlog", i), 1))
		}
	})
	return open
}

// quietly calls fn with a function that raises events. Unlike the method raise, this function does
// not wait until all goroutines are blocked. After fn has returned, quietly waits once.
func (w *fixture) quietly(fn func(raise func(...workflow.Event))) {
	w.t.Helper()
	fn(func(events ...workflow.Event) {
		if err := w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, events...) }); err != nil {
			w.t.Fatal(err)
		}
	})
	synctest.Wait()
}

func (w *fixture) count(table store.Table) (n int) {
	w.view(func(tx *store.Tx) error {
		for range tx.Range(store.At(table)) {
			n++
		}
		return nil
	})
	return n
}

func TestModifiedReplacesTheWaitingEventOfItsObjectInALongBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.backlog(999)
		w.raise(seen("Added", "early", 1), seen("Modified", "early", 2)) // the 1,000th and the 1,001st waiting event, which are not coalesced with each other
		w.raise(seen("Added", "a", 1), seen("Modified", "a", 2), seen("Modified", "b", 1), seen("Modified", "a", 3), seen("Modified", "b", 2))
		w.raise(seen("Modified", "early", 3), seen("Deleted", "a", 4), seen("Added", "a", 5), seen("Modified", "a", 6))
		large := seen("Modified", "b", 3)
		large.Payload = json.RawMessage(`"` + strings.Repeat("x", 3000) + `"`)
		w.raise(large)
		w.raise(seen("Modified", "b", 4), seen("Deleted", "b", 5))
		if n := len(w.pending("q")); n != 1+999+7 {
			t.Errorf("%d tasks are in the queue, want 7 behind the backlog", n)
		}
		open(workflow.Outcome{}, nil)
		want := []string{"Added early 1", "Modified early 3", "Added a 3", "Modified b 4", "Deleted a 4", "Added a 6", "Deleted b 5"}
		if diff := cmp.Diff(want, w.heard()); diff != "" {
			t.Error(diff)
		}
		if n := w.count(store.Backlogs); n != 0 {
			t.Errorf("%d records of a processed backlog are left", n)
		}
		w.expectAllEnded()
		w.raise(seen("Modified", "a", 7))
		if diff := cmp.Diff([]string{"Modified a 7"}, w.heard()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestModifiedReplacesNeitherADeletedNorAnEventOfAnotherObjectOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.backlog(1000)
		other := seen("Modified", "b", 2)
		other.Object.UID = "another"
		w.raise(seen("Deleted", "a", 1), seen("Modified", "a", 2), seen("Modified", "b", 1), other)
		open(workflow.Outcome{}, nil)
		want := []string{"Deleted a 1", "Modified a 2", "Modified b 1", "Modified b 2"}
		if diff := cmp.Diff(want, w.heard()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnEventHasTheOtherTypeThatWasCoalescedWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.backlog(1000)
		w.raise(seen("Added", "a", 1), seen("Modified", "a", 2), seen("Modified", "a", 3), seen("Added", "b", 1), seen("Modified", "c", 1), seen("Modified", "c", 2))
		open(workflow.Outcome{}, nil)
		got := map[string]string{}
		for _, n := range w.took() {
			for _, t := range n.task.Batch {
				if t.Object != nil && !strings.HasPrefix(t.Object.Name, "backlog") {
					got[t.Object.Name] = t.Object.Coalesced
				}
			}
		}
		if diff := cmp.Diff(map[string]string{"a": "Modified", "b": "", "c": ""}, got); diff != "" {
			t.Errorf("coalesced types of the events (-want +got):\n%s", diff)
		}
	})
}

func TestNoEventIsCoalescedInAShortBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.backlog(900)
		for i := range 90 {
			w.raise(seen("Modified", "a", i))
		}
		// Events of another binding are not part of this backlog.
		for i := range 200 {
			ev := seen("Modified", "a", i)
			ev.Subject.Binding = "another"
			w.quietly(func(raise func(...workflow.Event)) { raise(ev) })
		}
		open(workflow.Outcome{}, nil)
		if n := len(w.heard()); n != 290 {
			t.Errorf("%d events were delivered, want 290", n)
		}
	})
}

func TestWhatRunsIsNotFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.backlog(1200)
		w.raise(seen("Added", "a", 1))
		h := w.gate("event m/h b")
		open(workflow.Outcome{}, nil)
		w.heard()
		h(workflow.Outcome{}, nil) // the first thousand events end, and the batch with object a runs
		w.heard()
		w.quietly(func(raise func(...workflow.Event)) {
			for i := range 1100 {
				raise(seen("Added", fmt.Sprint("backlog more", i), 1))
			}
			raise(seen("Modified", "a", 2))
		})
		h(workflow.Outcome{}, nil)
		h(workflow.Outcome{}, nil)
		if diff := cmp.Diff([]string{"Modified a 2"}, w.heard()); diff != "" {
			t.Error(diff)
		}
		h(workflow.Outcome{}, nil)
	})
}

func TestFoldingGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.backlog(1000)
		w.raise(seen("Modified", "a", 1))
		w.restart()
		w.ran()
		w.mem.After = nil
		w.raise(seen("Modified", "a", 2))
		w.set("event m/other b", returns(workflow.Outcome{}))
		w.start()
		if diff := cmp.Diff([]string{"Modified a 2"}, w.heard()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDeferredEventsAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{Every: time.Hour, Burst: 1})
		w.mem.After = nil
		w.start(hookEvent("h", "x"))
		w.quietly(func(raise func(...workflow.Event)) {
			for i := range 1000 {
				raise(seen("Added", fmt.Sprint("backlog", i), 1))
			}
			for i := range 500 {
				raise(seen("Modified", "a", i))
			}
		})
		if n := w.count(store.Deferred); n != 1001 {
			t.Errorf("%d tasks are deferred, want 1001", n)
		}
		w.sleep(time.Hour)
		w.sleep(time.Hour)
		if diff := cmp.Diff([]string{"Modified a 499"}, w.heard()); diff != "" {
			t.Error(diff)
		}
		if n := w.count(store.Backlogs); n != 0 {
			t.Errorf("%d records of a processed backlog are left", n)
		}
	})
}

func TestCancellationAndWithdrawalRemoveABacklog(t *testing.T) {
	for _, how := range []string{"retire", "withdraw"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := newLimited(t, workflow.RateLimit{})
				open := w.backlog(1000)
				w.raise(seen("Modified", "a", 1))
				if how == "retire" {
					w.raise(on("retire", "m"))
				} else {
					w.withdraw("q", "m", "h", func(t *store.Task) bool { return t.Object.Name == "a" })
				}
				w.raise(seen("Modified", "a", 2))
				open(workflow.Outcome{}, nil)
				if diff := cmp.Diff([]string{"Modified a 2"}, w.heard()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestEventOfAnIdleQueueWritesNoMoreThanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.start()
		open := w.gate("event m/h b")
		put := w.changed(func() { w.raise(seen("Modified", "a", 1)) })
		more := w.changed(func() { w.raise(seen("Modified", "a", 2)) })
		transition := w.changed(func() { open(workflow.Outcome{}, nil) })
		if put > 3 || more > 3 || transition > 6 {
			t.Errorf("the events write %d and %d keys, and the transition %d; want at most 3, 3 and 6", put, more, transition)
		}
		open(workflow.Outcome{}, nil)
	})
}

func TestFoldingKeepsWhatCountsOfEachObject(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				open := w.backlog(1000)
				random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the sequence must be the same each time
				sent, observed := map[string][]string{}, map[string][]string{}
				exists := map[string]bool{}
				w.quietly(func(raise func(...workflow.Event)) {
					for version := range 300 {
						object, kind := fmt.Sprint("o", random.IntN(20)), "Modified"
						switch {
						case !exists[object]:
							kind = "Added"
						case random.IntN(4) == 0:
							kind = "Deleted"
						}
						exists[object] = kind != "Deleted"
						sent[object] = append(sent[object], fmt.Sprintf("%s %d", kind, version))
						raise(seen(kind, object, version))
					}
				})
				if err := w.db.Check(); err != nil {
					t.Error(err)
				}
				open(workflow.Outcome{}, nil)
				for _, line := range w.heard() {
					what := strings.Fields(line)
					observed[what[1]] = append(observed[what[1]], what[0]+" "+what[2])
				}
				want := map[string][]string{}
				for object, all := range sent {
					want[object] = coalesced(all)
				}
				if diff := cmp.Diff(want, observed); diff != "" {
					t.Errorf("delivered events of each object (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// coalesced returns the events that must be delivered if all given events of an object are
// coalesced: each Modified event is merged into the event before it.
func coalesced(all []string) (out []string) {
	for _, what := range all {
		kind, version, _ := strings.Cut(what, " ")
		if kind == "Modified" {
			before, _, _ := strings.Cut(out[len(out)-1], " ")
			out[len(out)-1] = before + " " + version
			continue
		}
		out = append(out, what)
	}
	return out
}
