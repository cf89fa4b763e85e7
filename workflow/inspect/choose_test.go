package inspect_test

import (
	"errors"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// TestTheRunThatMattersIsShownIfNoneIsNamed stores ended runs. Each case has the number of steps of each run, oldest
// run first.
func TestTheRunThatMattersIsShownIfNoneIsNamed(t *testing.T) {
	t.Parallel()
	many := append([]int{5}, make([]int, 20)...)
	for name, c := range map[string]struct {
		steps     []int
		converged uint64
		want      uint64
	}{
		"nothing has begun":                     {},
		"one run":                               {[]int{1}, 0, 1},
		"the newest of long runs":               {[]int{5, 3, 1}, 0, 2},
		"a run of two steps is short":           {[]int{3, 2, 2}, 0, 1},
		"the newest of short runs":              {[]int{1, 2, 1}, 0, 3},
		"no run older than the converge":        {[]int{9, 2, 1}, 2, 2},
		"a longer run after the converge":       {[]int{9, 2, 4, 1}, 2, 3},
		"a converge without steps in history":   {[]int{9, 0, 1}, 2, 1},
		"runs without steps are not considered": {many, 0, 1},
		"runs without steps only":               {[]int{0, 0}, 0, 2},
		"a run without steps after a short one": {[]int{1, 0}, 0, 1},
	} {
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		db := history(t, at, func(tx *store.Tx) (err error) {
			for i, steps := range c.steps {
				id := uint64(i + 1) //nolint:gosec // the number is small
				err = errors.Join(err, store.Save(tx, store.RunKey(id), store.Run{ID: id, Graph: lifecycle.Graph.Name, Began: at, Ended: at}))
				for n := range steps {
					err = errors.Join(err, store.AddRecord(tx, store.Record{
						Run: id, Task: store.ID{Epoch: 1, N: uint64(1000*i + n)}, Node: string(lifecycle.ModuleRun), State: store.Done, Began: at, Ended: at, //nolint:gosec // the number is small
					}))
				}
			}
			return errors.Join(err, store.Save(tx, store.StartupKey(), store.Startup{Converged: c.converged}))
		})
		if err := db.View(func(tx *store.Tx) error {
			run, err := (&inspect.Reader{}).Run(tx, inspect.Request{})
			switch {
			case c.want == 0 && (!errors.Is(err, inspect.ErrNoRun) || err.Error() != inspect.ErrNoRun.Error()+": nothing has begun yet"):
				t.Errorf("%s: run %+v, error %v", name, run, err)
			case c.want != 0 && (err != nil || run.ID != c.want):
				t.Errorf("%s: run %+v is shown, want run %d, error %v", name, run, c.want, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
