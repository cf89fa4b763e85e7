package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A world is the lifecycle with steps that only note that they ran.
type world struct {
	mu      sync.Mutex
	ran     []string
	members map[graph.NodeID][]graph.Member
	lists   map[graph.List][]graph.Member
	facts   map[string][]graph.Fact // by "node subject", taken once each
	fails   map[string]int          // by "node subject": how often
	blocks  map[string]chan struct{}
}

type step struct {
	w    *world
	node graph.NodeID
}

func (s step) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	name := fmt.Sprintf("%s %s", s.node, graph.Subject(t.Subject))
	s.w.mu.Lock()
	s.w.ran = append(s.w.ran, name)
	block := s.w.blocks[name]
	fail := s.w.fails[name] > 0
	if fail {
		s.w.fails[name]--
	}
	facts := s.w.facts[name]
	if !fail {
		delete(s.w.facts, name)
	}
	s.w.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return workflow.Outcome{}, ctx.Err()
		}
	}
	if fail {
		return workflow.Outcome{}, errors.New("as told")
	}
	if s.node == lifecycle.ModuleRun && facts == nil {
		facts = []graph.Fact{lifecycle.AlreadyStarted}
	}
	return workflow.Outcome{Facts: facts, Lists: s.w.lists}, nil
}

func (s step) Members(*store.Tx, workflow.Task) ([]graph.Member, json.RawMessage, error) {
	return s.w.members[s.node], nil, nil
}

func newWorld() *world {
	return &world{
		members: map[graph.NodeID][]graph.Member{}, lists: map[graph.List][]graph.Member{},
		facts: map[string][]graph.Fact{}, fails: map[string]int{}, blocks: map[string]chan struct{}{},
	}
}

func (w *world) engine(t *testing.T, db *store.DB) *workflow.Engine {
	t.Helper()
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Signal && !n.Adopts {
			steps[n.ID] = step{w, n.ID}
		}
	}
	e, err := workflow.New(db, workflow.Observer{Broken: func(q string, err error) { t.Errorf("queue %q: %v", q, err) }},
		workflow.Binding{Graph: lifecycle.Graph, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ran)
}

func modules(names ...string) (out []graph.Member) {
	for _, name := range names {
		out = append(out, graph.Member{Subject: graph.Subject{Module: name}})
	}
	return out
}

func TestStartWalksStepsOneToEightInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.members[lifecycle.GlobalOnStartup] = []graph.Member{{Subject: graph.Subject{Hook: "a"}}, {Subject: graph.Subject{Hook: "b"}}}
		w.members[lifecycle.ModuleBeforeHelm] = []graph.Member{{Subject: graph.Subject{Hook: "h"}}}
		w.lists[lifecycle.Enabled] = modules("one", "two")
		w.lists[lifecycle.Disabled] = modules("off")
		w.lists[lifecycle.Unknown] = modules("gone")
		w.facts["module-delete off"] = []graph.Fact{lifecycle.Unwanted}
		e := w.engine(t, storetest.Memory(t))
		if err := e.Start(func(*store.Tx) ([]workflow.Event, error) {
			return []workflow.Event{{On: lifecycle.OnStart}, {On: lifecycle.OnConfigMap}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		e.Stop()
		want := []string{
			"configmap-changed ", "global-onstartup a", "global-onstartup b", "discover-modules ",
			"module-run one", "module-beforehelm h", "release-check one",
			"module-run two", "module-beforehelm h", "release-check two",
			"module-delete off", "release-delete off", "module-purge gone",
		}
		if diff := cmp.Diff(want, w.seen()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailedModuleRunStartsOverWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fails["release-check m"] = 5
		e := w.engine(t, storetest.Memory(t))
		begin := time.Now()
		if err := e.Start(func(*store.Tx) ([]workflow.Event, error) {
			return []workflow.Event{{On: lifecycle.OnResourcesAbsent, Subject: store.Subject{Module: "m"}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		var times []time.Duration
		for range 6 {
			synctest.Wait()
			times = append(times, time.Since(begin))
			n := len(w.seen())
			for len(w.seen()) == n && time.Since(begin) < 3*time.Minute {
				time.Sleep(time.Second)
			}
		}
		e.Stop()
		var want []time.Duration
		for _, s := range []int{0, 5, 15, 35, 65, 95} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if diff := cmp.Diff(want, times); diff != "" {
			t.Error(diff)
		}
		if got := len(w.seen()); got != 12 {
			t.Errorf("%d steps ran, want module-run and release-check six times each: %v", got, w.seen())
		}
	})
}
