package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// promised is a chaos whose steps record in the store what each start and each converge must do: the Synchronizations
// of all hooks, and the runs of the enabled modules. Like the real steps, they do not repeat work that has ended in the
// same start. So the engine must not lose work, because no later step would do it.
type promised struct{ *chaos }

// A promise is the record of a module. The promise of the module with the empty name is about the global hooks. Wanted,
// Running and Ran count discoveries. The other numbers are the numbers of starts.
type promise struct {
	Enabled  bool
	Wanted   int // how many discoveries have enabled or disabled the module
	Running  int // Wanted when the current run of the module began
	Ran      int // Running of the last run that ended
	RanIn    int // the start of the last run that ended
	Attached int // the start in which the bindings were last attached
	// Synced has the start in which the Synchronization of each binding last ended.
	Synced map[string]int
}

func promiseKey(module string) store.Key { return store.At(store.Releases).Str("promise " + module) }

func startKey() store.Key { return store.At(store.Releases).Str("start") }

// loadPromise returns the promise of module, and the number of the current start.
func loadPromise(tx *store.Tx, module string) (p promise, start int, err error) {
	if p, _, err = store.Load[promise](tx, promiseKey(module)); err != nil {
		return p, 0, err
	}
	if p.Synced == nil {
		p.Synced = map[string]int{}
	}
	start, _, err = store.Load[int](tx, startKey())
	return p, start, err
}

// edit changes the promise of module with the function fn, which gets the number of the current start.
func edit(tx *store.Tx, module string, fn func(p *promise, start int)) error {
	p, start, err := loadPromise(tx, module)
	if err != nil {
		return err
	}
	fn(&p, start)
	return store.Save(tx, promiseKey(module), p)
}

func newPromised(t testing.TB) promised {
	t.Helper()
	c := promised{newChaos(t)}
	c.starts, c.skippable = c.newStart, losesNoRun
	for _, node := range []graph.NodeID{lifecycle.ModuleRun, lifecycle.ModuleDelete} {
		c.do[string(node)] = func(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
			out, err := c.step(ctx, t)
			out.Facts = nil // applyStep returns the facts
			return out, err
		}
	}
	c.do[string(lifecycle.DiscoverModules)] = func(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
		if out, err = c.step(ctx, t); c.isCalm() {
			out = c.output(t, 11) // the last converge enables all modules, in a parallel group
		}
		return out, err
	}
	for _, node := range []graph.NodeID{lifecycle.GlobalSynchronization, lifecycle.ModuleSynchronization} {
		c.bind(lifecycle.Graph, node, synchronizing{step{c.fixture, node}})
		all := c.items[node]
		c.items[node] = func(tx *store.Tx, t workflow.Task) (items []graph.Item, err error) {
			if items, err = all(tx, t); err != nil {
				return nil, err
			}
			err = edit(tx, t.Subject.Module, func(p *promise, start int) {
				p.Attached = start
				items = slices.DeleteFunc(items, func(i graph.Item) bool { return p.Synced[i.Subject.Binding] == start })
			})
			return items, err
		}
	}
	c.e = c.engine()
	c.apply, c.fixture.end = c.applyStep, c.endFanOut
	return c
}

// losesNoRun reports whether a person can skip the step of t without skipping a run of a module: the step is a
// Synchronization, or t is a run that starts over because a later step has failed.
func losesNoRun(t *store.Task) bool {
	if f := t.Failed; f != nil && f.Node != t.Node {
		return t.Node == string(lifecycle.ModuleRun) || t.Node == string(lifecycle.ModuleDelete)
	}
	return slices.Contains([]string{string(lifecycle.GlobalSynchronization), string(lifecycle.ModuleSynchronization)}, t.Node) &&
		(t.OwnQueue || t.FanOut != nil && t.FanOut.Next < t.FanOut.Len)
}

// newStart begins a start in tx, and returns its event.
func (c promised) newStart(tx *store.Tx) ([]workflow.Event, error) {
	start, _, err := store.Load[int](tx, startKey())
	if err != nil {
		return nil, err
	}
	return []workflow.Event{newStart()}, store.Save(tx, startKey(), start+1)
}

// applyStep records what the step of t has done. For the nodes ModuleRun and ModuleDelete, whose random facts
// newPromised removes, applyStep returns the facts that the real step would report.
func (c promised) applyStep(tx *store.Tx, t workflow.Task, out workflow.Outcome) (facts []graph.Fact, err error) {
	if _, err := c.chaos.applyStep(tx, t, out); err != nil {
		return nil, err
	}
	switch graph.NodeID(t.Node) {
	case lifecycle.DiscoverModules:
		return nil, c.discover(tx, out)
	case lifecycle.ModuleRun:
		err = edit(tx, t.Subject.Module, func(p *promise, start int) {
			p.Running = p.Wanted
			switch {
			case !p.Enabled:
			case p.RanIn == start:
				facts = []graph.Fact{lifecycle.AlreadyStarted}
			default:
				facts = []graph.Fact{lifecycle.JustEnabled}
			}
		})
	case lifecycle.ModuleDelete:
		err = edit(tx, t.Subject.Module, func(p *promise, _ int) {
			if !p.Enabled {
				*p, facts = promise{}, []graph.Fact{lifecycle.Unwanted}
			}
		})
	case lifecycle.GlobalSynchronization, lifecycle.ModuleSynchronization:
		err = edit(tx, t.Subject.Module, func(p *promise, _ int) { p.Synced[t.Subject.Binding] = p.Attached })
	}
	return facts, err
}

// discover records which modules a discovery has enabled or disabled.
func (c promised) discover(tx *store.Tx, out workflow.Outcome) error {
	for fanOut, enabled := range map[graph.FanOut]bool{lifecycle.Enabled: true, lifecycle.Disabled: false} {
		for _, item := range out.Items[fanOut] {
			if err := edit(tx, item.Subject.Module, func(p *promise, _ int) {
				p.Enabled = enabled
				p.Wanted++
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// endFanOut records the end of a module's run.
func (c promised) endFanOut(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
	if graph.NodeID(t.Node) != lifecycle.ModuleAfterHelm {
		return nil, nil
	}
	return nil, edit(tx, t.Subject.Module, func(p *promise, start int) { p.Ran, p.RanIn = p.Running, start })
}

// expectKept expects that the last start and the last converge have done all their work.
func (c promised) expectKept() {
	c.view(func(tx *store.Tx) error {
		for _, module := range []string{"", "m0", "m1", "m2"} {
			p, start, err := loadPromise(tx, module)
			if err != nil {
				return err
			}
			if p.Enabled && p.Ran != p.Wanted {
				c.t.Errorf("module %s has not run after its discovery %d: %+v", module, p.Wanted, p)
			}
			if p.Attached != start {
				continue
			}
			for i := range bindingsOfChaos {
				if p.Synced[fmt.Sprint(i)] != start {
					c.t.Errorf("the Synchronization of binding %d of module %q was lost in start %d: %+v", i, module, start, p)
				}
			}
		}
		return nil
	})
}

func TestWhateverHappensNoSynchronizationAndNoModuleRunIsLost(t *testing.T) {
	chaosLaw(t, drawChaos, func(o *oracle, story chaosStory) {
		c := newPromised(o)
		c.run(story)
		c.expectKept()
	})
}

// A synchronizing step is the Synchronization of hooks. An item that can run without its fan-out is held until its
// binding is attached in the current start.
type synchronizing struct{ step }

func (s synchronizing) Gate(tx *store.Tx, t *store.Task) (awaits string, err error) {
	p, start, err := loadPromise(tx, t.Subject.Module)
	if err != nil || p.Attached == start {
		return "", err
	}
	return fmt.Sprintf("start %d has yet to attach the binding", start), nil
}

func (s synchronizing) Skipped(tx *store.Tx, t workflow.Task) error {
	return edit(tx, t.Subject.Module, func(p *promise, _ int) { p.Synced[t.Subject.Binding] = p.Attached })
}
