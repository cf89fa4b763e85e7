package workflow_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A chaosAction is one event that happens to an engine: its kind, and a number that selects the
// details, such as the module, the queue, the running step or the duration.
type chaosAction struct {
	What  string
	Which int
}

// chaosActions are the kinds of actions. A kind with several entries is more frequent. The first kind does nothing:
// when rapid simplifies a history that fails, it replaces unnecessary actions by the first kind.
var chaosActions = []string{
	"nothing",
	"event", "event", "event", "burst", "burst", "tick", "absent", "request", "config", "flags", "global", "start", "reload", "mended",
	"succeed", "succeed", "succeed", "succeed", "succeed", "fail", "effects", "unavailable", "refused",
	"skip", "retry", "withdraw", "wait", "wait", "kill", "crash", "crash", "release", "limit", "limit",
	"pause", "resume", "cancel", "close", "close", "open", "progress", "progress", "progress",
}

// chaos is a fixture of the lifecycle. Until calm is set, every step runs until a chaosAction ends it.
type chaos struct {
	*fixture
	running map[string]chan ending        // by queue
	modules map[string]string             // queue in which a step of the module's run runs, by module
	calm    bool                          // whether steps end by themselves
	limits  map[string]workflow.RateLimit // by hook
	did     map[string]bool               // whether the last attempt of a step at a task succeeded, by doneKey
	watched watched
	// continues is the ContinueOnFailure of the engines of all processes. If small is set, these engines have lower
	// sizes, so that a few events are a long backlog.
	continues, small bool
	// overlap is set if the header of a fan-out task was damaged while its items were pending. Without the header, the
	// next task of its queue does not wait for these items.
	overlap bool
	// starts returns the event with which a new process begins a start. If starts is nil, the action "start" raises
	// OnStart without a new process.
	starts func(*store.Tx) ([]workflow.Event, error)
	// skippable reports whether a person can skip a waiting task. If skippable is nil, a person can skip every waiting
	// task, and can also skip a running task by canceling its attempt.
	skippable func(*store.Task) bool
}

type ending struct {
	out workflow.Outcome
	err error
}

// bindingsOfChaos is the number of bindings of a module, and of the global hooks. Two of them belong to the same hook.
const bindingsOfChaos = 7

func newChaos(t testing.TB) *chaos {
	t.Helper()
	c := &chaos{
		fixture: newFixture(t, lifecycle.Graph), running: map[string]chan ending{}, modules: map[string]string{}, did: map[string]bool{},
		limits: map[string]workflow.RateLimit{"h1": everyThree}, watched: newWatched(),
	}
	c.sparse, c.apply, c.recorded = true, c.applyStep, c.recordEvent
	for _, n := range lifecycle.Graph.Nodes {
		if n.Batch {
			c.bind(lifecycle.Graph, n.ID, reaction{limited{step{c.fixture, n.ID}, c.limits}})
		}
		c.do[string(n.ID)] = c.step
		hook := func(name string, queue string, wait bool) graph.Item {
			return graph.Item{Subject: graph.Subject{Hook: name}, Queue: queue, Wait: wait, AllowFailure: name == "b"}
		}
		c.items[n.ID] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
			list := []graph.Item{hook("a", "", false), hook("b", "", false)}
			if n.ForEach == lifecycle.Bindings {
				list = []graph.Item{hook("a", "q0", true), hook("b", "", true), hook("c", "q1", false), hook("d", "q1", true), hook("d", "q1", true), hook("e", "parallel-1", true), hook("f", "parallel-0", true)}
			}
			for i := range list {
				list[i].Subject.Module = t.Subject.Module
				if n.ForEach == lifecycle.Bindings {
					list[i].Subject.Binding = fmt.Sprint(i)
				}
			}
			return list, nil
		}
	}
	c.e = c.engine()
	c.effect = func(_ context.Context, _ workflow.Task, e workflow.Effect) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.calm || e.Kind == "effects":
			return nil
		case e.Kind == "refused":
			return workflow.Refused(errors.New("403"))
		}
		return errors.New("503")
	}
	return c
}

func (c *chaos) isCalm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calm
}

// step is the function Do of all steps. step runs until a chaosAction ends it, and then returns an
// outcome that its node can have.
func (c *chaos) step(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	defer c.enterModule(t)()
	out, err := c.attempt(ctx, t)
	c.locked(func() { c.did[c.doneKey(t)] = err == nil })
	return out, err
}

// attempt waits until a chaosAction ends the attempt at t.
func (c *chaos) attempt(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	ends := make(chan ending)
	c.mu.Lock()
	calm := c.calm
	if !calm {
		c.running[t.Queue] = ends
	}
	c.mu.Unlock()
	if calm {
		return c.output(t, 0), nil
	}
	select {
	case end := <-ends:
		if end.err == nil {
			out := c.output(t, len(end.out.Detail))
			end.out.Facts, end.out.Items = out.Facts, out.Items
		}
		return end.out, end.err
	case <-ctx.Done():
		c.locked(func() {
			if c.running[t.Queue] == ends {
				delete(c.running, t.Queue)
			}
		})
		return workflow.Outcome{}, ctx.Err()
	}
}

// enterModule records that the step of t is running, until the returned function is called. It reports an error if a
// step of another run of the module is running. enterModule ignores steps that are not part of the run of a module. It
// also ignores Synchronizations in queues of their own, because they run at the same time as other steps of their run.
func (c *chaos) enterModule(t workflow.Task) (leave func()) {
	n, _ := lifecycle.Graph.Node(graph.NodeID(t.Node))
	first, _ := lifecycle.Graph.Node(lifecycle.ModuleRun)
	if n.Group != first.Group || t.OwnQueue {
		return func() {}
	}
	c.locked(func() {
		if other, runs := c.modules[t.Subject.Module]; runs && !c.overlap {
			c.t.Errorf("%s runs in queue %s, while a step of another run of the module runs in queue %s", name(t.Node, t.Subject), t.Queue, other)
		}
		c.modules[t.Subject.Module] = t.Queue
	})
	return func() { c.locked(func() { delete(c.modules, t.Subject.Module) }) }
}

// output returns an outcome of t's step. If the step has several possible outcomes, output chooses one of them by the
// number in the parameter named which.
func (c *chaos) output(t workflow.Task, which int) (out workflow.Outcome) {
	one := func(facts ...graph.Fact) { out.Facts = facts[which%len(facts) : which%len(facts)+1] }
	switch graph.NodeID(t.Node) {
	case lifecycle.DiscoverModules:
		all := []string{"m0", "m1", "m2"}
		out.Items = map[graph.FanOut][]graph.Item{
			lifecycle.Enabled: group("10", which/4%4, all[:which%4]...), lifecycle.Disabled: modules(all[which%4:]...), lifecycle.Unknown: modules("gone"),
		}
	case lifecycle.ModuleRun:
		one(lifecycle.AlreadyStarted, lifecycle.JustEnabled, lifecycle.HalfDeleted, "nothing")
	case lifecycle.ModuleDelete:
		one(lifecycle.Unwanted, "nothing")
	case lifecycle.ReleaseCheck:
		one(lifecycle.Outdated, "nothing")
	case lifecycle.GlobalKubernetesEvent, lifecycle.GlobalScheduleEvent:
		one("nothing", lifecycle.GlobalChanged)
	case lifecycle.ModuleKubernetesEvent, lifecycle.ModuleScheduleEvent, lifecycle.ModuleAfterHelm:
		one("nothing", lifecycle.ModuleChanged)
	case lifecycle.ConfigMapChanged:
		one("nothing", lifecycle.GlobalChanged, lifecycle.ModuleChanged, lifecycle.FlagsChanged)
		if which == 0 {
			return out // the last changes of the ConfigMap delete no module
		}
		lists := []graph.FanOut{lifecycle.Changed, lifecycle.ChangedUnstarted, lifecycle.SwitchedOff}
		out.Items = map[graph.FanOut][]graph.Item{lists[which/4%len(lists)]: modules(fmt.Sprint("m", which%3))}
	}
	return out
}

// happen executes the action d. If no task allows the action, happen does nothing.
func (c *chaos) happen(d chaosAction) {
	switch d.What {
	case "nothing":
	case "event", "burst", "withdraw", "close", "open":
		c.happenToEvents(d)
	case "skip", "retry", "release", "pause", "resume", "cancel", "limit":
		c.intervene(d)
	case "wait":
		c.sleep(time.Duration(d.Which) * time.Second)
	case "progress":
		for i := range d.Which {
			c.end(chaosAction{"succeed", d.Which + i})
		}
	case "damage":
		c.damageOne(d.Which)
	case "kill", "crash":
		for range 1 + d.Which%3 {
			c.process(d)
		}
	case "succeed", "fail", "effects", "unavailable", "refused":
		c.end(d)
	default:
		c.trigger(d)
	}
}

// trigger raises the event of the action d. For a start, it can also replace the process.
func (c *chaos) trigger(d chaosAction) {
	module, queue := fmt.Sprint("m", d.Which%3), []string{"q0", "q1", "q2", "main", "parallel-0"}[d.Which%5]
	switch d.What {
	case "tick":
		c.raise(in(queue, on(lifecycle.OnModuleSchedule, module, fmt.Sprint("h", d.Which%2), "b")))
	case "absent":
		c.raise(on(lifecycle.OnResourcesAbsent, module))
	case "request":
		c.raise(on(lifecycle.OnRunRequest, module))
	case "config", "flags":
		c.raise(on(lifecycle.OnConfigMap))
	case "global":
		c.raise(in(queue, on(lifecycle.OnGlobalSchedule, "", "g")))
	case "reload":
		c.raise(on(lifecycle.OnReloadRequest))
	case "mended":
		c.raise(on(lifecycle.OnModuleMended))
	case "start":
		if c.starts != nil {
			c.process(d)
			return
		}
		ev := on(lifecycle.OnStart)
		if d.Which%2 == 0 {
			ev.Supersedes = lifecycle.GlobalBeforeAll
		}
		c.raise(ev)
	default:
		c.t.Errorf("there is no action %q", d.What)
	}
}

// intervene executes the action d of a person.
func (c *chaos) intervene(d chaosAction) {
	switch d.What {
	case "skip", "retry":
		c.change(d)
	case "release":
		c.release()
	case "pause":
		c.pauseWork(d)
	case "resume":
		c.resumeWork(1)
	case "cancel":
		c.cancel(d)
	case "limit":
		c.locked(func() {
			c.limits[fmt.Sprint("h", d.Which%2)] = workflow.RateLimit{
				Every: time.Duration(d.Which%4) * 3 * time.Second, Burst: 1 + d.Which%3, NoBatch: d.Which%5 == 0,
			}
		})
		c.e.RateLimitsChanged()
		synctest.Wait()
	}
}

// process replaces the process, which crashes or stops. Some of the new processes run in a new container. With the
// action "start", the new process begins a start.
func (c *chaos) process(d chaosAction) {
	if d.What == "crash" {
		c.crash()
	} else {
		c.restart()
	}
	c.running = map[string]chan ending{}
	c.e.NewContainer = d.Which%5 == 4
	c.begin(d.What == "start")
}

// begin starts the engine with a change of the ConfigMap, and with the event of a start if the parameter withStart is
// set.
func (c *chaos) begin(withStart bool) {
	c.e.ContinueOnFailure = c.continues
	if c.small {
		c.e.LowerSizes()
	}
	if err := c.e.Start(func(tx *store.Tx) (events []workflow.Event, err error) {
		if withStart {
			events, err = c.starts(tx)
		}
		return append(events, on(lifecycle.OnConfigMap)), err
	}); err != nil {
		c.t.Error(err)
	}
	synctest.Wait()
}

// release releases all items in quarantine.
func (c *chaos) release() {
	for _, q := range readable(c, store.QuarantinedItems) {
		if err := c.e.Release(q.ID, "me", ""); err != nil && !errors.Is(err, workflow.ErrNoTask) { // a pause is no such item
			c.t.Error(err)
		}
	}
	synctest.Wait()
}

// readable returns the records that the function all yields. It leaves out the records that the action "damage" has
// made unreadable.
func readable[T any](c *chaos, all func(*store.Tx) iter.Seq2[T, error]) (found []T) {
	c.view(func(tx *store.Tx) error {
		for v, err := range all(tx) {
			if _, damaged := errors.AsType[*store.RecordError](err); damaged && c.unsound {
				continue
			}
			if err != nil {
				return err
			}
			found = append(found, v)
		}
		return nil
	})
	return found
}

// pauseWork pauses a module, a hook, a queue or all work, unless it is paused already.
func (c *chaos) pauseWork(d chaosAction) {
	module, hook := fmt.Sprint("m", d.Which%3), string("abcdef"[d.Which%6])
	targets := []workflow.PauseTarget{
		{Subject: graph.Subject{Module: module}},
		{Subject: graph.Subject{Module: module, Hook: hook}},
		{Subject: graph.Subject{Hook: hook}},
		{Queue: fmt.Sprint("q", d.Which%2)},
		{Queue: "main"},
		{},
	}
	target := targets[d.Which/2%len(targets)]
	if err := c.e.Pause(lifecycle.Graph.Name, target, "mia", "an incident"); err != nil && !errors.Is(err, workflow.ErrPaused) {
		c.t.Error(err)
	}
	synctest.Wait()
}

// resumeWork ends the oldest pauses, at most n of them.
func (c *chaos) resumeWork(n int) {
	var targets []workflow.PauseTarget
	for _, q := range readable(c, store.QuarantinedItems) {
		if q.Paused != nil {
			targets = append(targets, workflow.PauseTarget{Queue: q.Queue, Subject: q.Subject})
		}
	}
	for _, target := range targets[:min(n, len(targets))] {
		c.resume(target)
	}
	synctest.Wait()
}

// cancel cancels one of the running attempts.
func (c *chaos) cancel(d chaosAction) {
	c.mu.Lock()
	queues := slices.Sorted(maps.Keys(c.running))
	c.mu.Unlock()
	if len(queues) == 0 {
		return
	}
	queue := queues[d.Which%len(queues)]
	c.e.CancelWhere(func(t workflow.Task) bool { return t.Queue == queue }, workflow.Cancellation{By: "mia", Reason: "it hangs", Skip: d.Which%2 == 0 && c.skippable == nil})
	synctest.Wait()
}

// change skips or retries a random task, or skips a random item in quarantine.
func (c *chaos) change(d chaosAction) {
	var all []*store.Task
	if d.What == "skip" {
		all = append(c.quarantinedSteps(), readable(c, store.AllHeldTasks)...)
	}
	all = slices.Concat(all, readable(c, allDeferred), readable(c, store.AllTasks))
	if d.What == "skip" && c.skippable != nil {
		all = slices.DeleteFunc(all, func(t *store.Task) bool { return !c.skippable(t) })
	}
	if len(all) == 0 {
		return
	}
	id := all[d.Which%len(all)].ID
	var err error
	if d.What == "skip" {
		err = c.e.Skip(id, "chaos", "because")
	} else {
		err = c.e.Retry(id, "me", "")
	}
	expected := []error{workflow.ErrRuns, workflow.ErrWaitsForItems, workflow.ErrNotFailed}
	if c.unsound {
		expected = append(expected, workflow.ErrNoTask) // the task is dropped if one of its records is unreadable
	}
	if err != nil && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		c.t.Error(err)
	}
	synctest.Wait()
}

// quarantinedSteps returns a task for each item in quarantine whose node has RetryFrom: the task with which the run of
// the item would start over.
func (c *chaos) quarantinedSteps() (tasks []*store.Task) {
	for _, q := range readable(c, store.QuarantinedItems) {
		n, ok := lifecycle.Graph.Node(graph.NodeID(q.Node))
		if q.Paused == nil && ok && n.RetryFrom != "" {
			tasks = append(tasks, &store.Task{ID: q.ID, Node: string(n.RetryFrom), Failed: &store.Failure{Node: q.Node, Subject: q.Subject}})
		}
	}
	return tasks
}

func allDeferred(tx *store.Tx) iter.Seq2[*store.Task, error] { return store.DeferredTasks(tx) }

// end ends one of the running steps.
func (c *chaos) end(d chaosAction) {
	c.mu.Lock()
	queues := slices.Sorted(maps.Keys(c.running))
	if len(queues) == 0 {
		c.mu.Unlock()
		return
	}
	queue := queues[d.Which%len(queues)]
	ends := c.running[queue]
	delete(c.running, queue)
	c.mu.Unlock()
	end := ending{out: workflow.Outcome{Detail: strings.Repeat(".", d.Which)}}
	switch d.What {
	case "fail":
		end.err = errors.New("as the test requires")
	case "effects", "unavailable", "refused":
		end.out.Effects = effects(d.What).Effects
	}
	ends <- end
	synctest.Wait()
}

// mostActions is the maximum number of actions of a history.
const mostActions = 120

// A chaosStory is a random history of an engine.
type chaosStory struct {
	Continues bool // ContinueOnFailure
	Small     bool // whether the engines have lower sizes
	Actions   []chaosAction
}

func drawChaos(rt *rapid.T) chaosStory { return drawStory(rt, chaosActions) }

// drawStory draws a history of the given kinds of actions.
func drawStory(rt *rapid.T, kinds []string) chaosStory {
	action := rapid.Custom(func(rt *rapid.T) chaosAction {
		return chaosAction{rapid.SampledFrom(kinds).Draw(rt, "what"), rapid.IntRange(0, 30).Draw(rt, "which")}
	})
	return chaosStory{rapid.Bool().Draw(rt, "continues"), rapid.Bool().Draw(rt, "small"), rapid.SliceOfN(action, 20, mostActions).Draw(rt, "actions")}
}

// run begins a start and executes the actions. After that, every step succeeds, and run ends all
// pauses and quarantines, opens all gates, and waits for two hours. In this time, all work must end.
func (c *chaos) run(story chaosStory) {
	c.continues, c.small = story.Continues, story.Small
	c.begin(c.starts != nil)
	if c.starts == nil {
		c.raise(on(lifecycle.OnStart))
	}
	for _, d := range story.Actions {
		c.happen(d)
	}
	c.locked(func() { c.calm = true })
	for len(c.running) > 0 {
		c.end(chaosAction{"succeed", 0})
	}
	c.resumeWork(len(story.Actions))
	for range 2 { // a task that crashed an operator is quarantined only when it reaches the head of its queue
		c.release()
		c.openGates(modulesOfChaos...)
		c.sleep(time.Hour)
	}
}

// histories is the number of histories of each test, unless the command line sets another number.
const histories = "160"

// chaosLaw is like law, but checks fewer cases by default, because a history takes longer than other cases.
func chaosLaw(t *testing.T, draw func(*rapid.T) chaosStory, story func(o *oracle, drawn chaosStory)) {
	t.Helper()
	if checks := flag.Lookup("rapid.checks").Value; checks.String() == defaultChecks {
		set := func(n string) {
			if err := checks.Set(n); err != nil {
				t.Error(err)
			}
		}
		set(histories)
		defer set(defaultChecks)
	}
	law(t, draw, story)
}

func TestWhateverHappensTheStoreIsTrueAndEverythingEnds(t *testing.T) {
	chaosLaw(t, drawChaos, func(o *oracle, story chaosStory) {
		c := newChaos(o)
		c.run(story)
		c.expectNothingLeft()
		c.expectDelivered()
	})
}

// expectNothingLeft expects that all runs have ended, and that the store has no records of work. The store can have
// records of the given tables.
func (c *chaos) expectNothingLeft(tables ...string) {
	tables = append(tables, "runs", "history", "actions", "buckets", "interruptions", "releases")
	for _, t := range readable(c, store.AllTasks) {
		c.t.Errorf("a task is left in queue %s: %+v", t.Queue, *t)
	}
	for _, run := range readable(c, store.RunsBackwards) {
		if run.Open != 0 || run.Ended.IsZero() {
			c.t.Errorf("run %d has not ended: %+v", run.ID, run)
		}
	}
	for k := range c.contents() {
		// The record of an interruption is left if the run that starts over does not reach the interrupted item,
		// because its steps report other facts than before.
		if table, _, _ := strings.Cut(k, "/"); !slices.Contains(tables, table) {
			c.t.Errorf("%s is left", k)
		}
	}
}
