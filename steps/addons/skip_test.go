package addons

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// failing replaces a step. Each attempt fails as long as the value in the field "fails" is true.
type failing struct {
	workflow.Step
	fails *atomic.Bool
}

func (s failing) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if s.fails.Load() {
		return workflow.Outcome{}, errors.New("the step fails")
	}
	return s.Step.Do(ctx, t)
}

func (s failing) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	if applier, ok := s.Step.(workflow.Applier); ok {
		return applier.Apply(tx, t, out)
	}
	return nil, nil
}

func (s failing) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	if effecter, ok := s.Step.(workflow.Effecter); ok {
		return effecter.Effect(ctx, t, e)
	}
	return nil
}

func (s failing) Skipped(tx *store.Tx, t workflow.Task) error {
	if skipper, ok := s.Step.(workflow.Skipper); ok {
		return skipper.Skipped(tx, t)
	}
	return nil
}

// skipHead skips the first task in the queue of a configuration. This must be a task of the node want.
func (a *fixture) skipHead(name string, want graph.NodeID) {
	a.t.Helper()
	var head *store.Task
	if err := a.r.DB.View(func(tx *store.Tx) (err error) {
		head, _, err = store.Head(tx, graph.Subject{Configuration: name}.Queue())
		return err
	}); err != nil || head == nil || graph.NodeID(head.Node) != want {
		a.t.Fatalf("the task of the configuration is %+v, want one of %s: %v", head, want, err)
	}
	if err := a.engine.Skip(head.ID, "person", "it takes too long"); err != nil {
		a.t.Fatal(err)
	}
	synctest.Wait()
}

// TestASkippedStepUnregistersNothing changes a configuration with two addons, and skips one step of its round. The
// addons must stay registered, and the configuration must not become Ready without them.
func TestASkippedStepUnregistersNothing(t *testing.T) {
	t.Parallel()
	type end struct {
		phase   store.Phase
		planned bool
	}
	for node, want := range map[graph.NodeID]end{
		addons.ConfigurationChanged: {store.PhaseReady, true}, // the round of the new generation has not begun
		addons.FetchRepositories:    {store.PhasePending, true},
		addons.LintAddons:           {store.PhaseReady, false},
		addons.FindDuplicates:       {store.PhaseReady, false},
		addons.FindConflicts:        {store.PhaseReady, false},
		addons.RegisterAddons:       {store.PhasePending, true},
		addons.ConfigurationStatus:  {store.PhaseReady, false},
	} {
		t.Run(string(node), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, fails, due := newFixture(t), new(atomic.Bool), time.Time{}
				a.replace = func(steps map[graph.NodeID]workflow.Step) { steps[node] = failing{steps[node], fails} }
				a.start()
				defer a.stop()
				a.r.Retry.Resync = time.Hour
				a.r.Settled = func(_ api.Identity, at time.Time) { due = at }
				a.apply("one", []string{"X", "Y"})
				a.raise("one")
				fails.Store(true)
				a.apply("one", []string{"X", "Y"})
				a.raise("one")
				a.skipHead("one", node)
				phases, owners := a.phases()
				if diff := cmp.Diff(map[string]string{"X": "one", "Y": "one"}, owners); diff != "" {
					t.Errorf("owners of the addons (-want +got):\n%s", diff)
				}
				if got := (end{phases["one"], !due.IsZero()}); got != want {
					t.Errorf("the configuration is %+v, want %+v", got, want)
				}
			})
		})
	}
}

func TestAddonsThatWereNotCheckedAreCheckedBeforeTheyAreRegistered(t *testing.T) {
	t.Parallel()
	r := &Runtime{DB: storetest.Memory(t)}
	offer(t, r.DB, "first")
	offer(t, r.DB, "second")
	if _, phase, reason := register(t, r, "first"); phase != store.PhaseReady {
		t.Errorf("first is %s: %s", phase, reason)
	}
	if _, phase, reason := register(t, r, "second"); phase != store.PhaseFailed || api.Reason(reason) != api.ConflictWithAlreadyRegisteredAddon {
		t.Errorf("second is %s: %s; both have the same ID", phase, reason)
	}
}
