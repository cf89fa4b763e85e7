package simulate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// checkEvery is the number of commits between two complete checks of the store. checkEveryQuiet is the number for the
// quiet days after a round.
const (
	checkEvery      = 16
	checkEveryQuiet = 256
)

// checks verifies the invariants of a simulation.
type checks struct {
	simulation *simulation

	mu      sync.Mutex
	synced  map[hookName]bool      // hooks whose Synchronization in the last start run has ended
	last    map[[2]string]store.ID // last completed task for an event or a schedule tick, by queue and hook
	start   uint64                 // number of the last start run
	commits int
	every   int // number of commits between two complete checks; changed only while no goroutine of the operator runs
}

func newChecks(w *simulation) *checks {
	return &checks{simulation: w, synced: map[hookName]bool{}, last: map[[2]string]store.ID{}, every: checkEvery}
}

// watching has the hooks with a kubernetes binding, which run on Synchronization. The value is the label "for" of the
// objects that the hook watches.
var watching = map[hookName]string{
	{"alpha", "hooks/watch"}: "alpha", {"beta", "hooks/watch"}: "beta", {"gamma", "hooks/watch"}: "gamma", {"", "fleet"}: "fleet",
}

// raised is called when a workflow run begins.
func (c *checks) raised(run store.Run) {
	c.simulation.note("operator", "run %d begins: %s", run.ID, run.Trigger)
	if run.Trigger == string(lifecycle.OnStart) {
		c.mu.Lock()
		c.begin(run)
		c.mu.Unlock()
	}
}

// begin records that a start run has begun: in it, all hooks must run their Synchronization again. The caller holds
// mu.
func (c *checks) begin(run store.Run) {
	if run.ID > c.start {
		c.start = run.ID
		clear(c.synced)
	}
}

// forget removes all recorded numbers of runs and tasks. It is called when the store is lost or replaced, because the
// next store uses the same numbers for other work.
func (c *checks) forget() {
	c.mu.Lock()
	c.start = 0
	clear(c.synced)
	clear(c.last)
	c.mu.Unlock()
	hs := c.simulation.hooks
	hs.mu.Lock()
	defer hs.mu.Unlock()
	clear(hs.succeeded)
	hs.reported, hs.effected = "", ""
}

// replaced is called after the store was replaced by an older copy or by an empty store.
func (c *checks) replaced() {
	c.forget()
	c.simulation.hooks.lose("", true)
	if err := c.read(func(tx *store.Tx) error { return c.learn(tx, true) }); err != nil {
		c.simulation.violated("the store is not consistent after it was replaced: %v", err)
	}
}

// started is called when a hook starts. It checks that the hook receives events and schedule ticks only after its
// Synchronization in the last start run.
func (c *checks) started(h hookName, elements []element) {
	c.mu.Lock()
	synced := c.synced[h]
	c.mu.Unlock()
	if _, has := watching[h]; !has || synced {
		return
	}
	if slices.ContainsFunc(elements, func(e element) bool { return e.Type == "Event" || e.Type == "Schedule" }) {
		c.simulation.violated("gate: hook %s runs on events before its Synchronization in the last start run is done", h)
	}
}

// recorded is called for each record of history, after the commit that writes it.
func (c *checks) recorded(r store.Record) {
	c.simulation.note("operator", "%s: %s %s, task %s of run %d in queue %s%s", r.State, r.Node, r.Subject, r.Task, r.Run, r.Queue, because(r))
	if r.State != store.Done {
		return
	}
	h := hookName{r.Subject.Module, r.Subject.Hook}
	node, _ := lifecycle.Graph.Node(graph.NodeID(r.Node))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync(r)
	if h.name == "" {
		return
	}
	if !c.simulation.hooks.hasSucceeded(r.Task.String(), h) {
		c.simulation.violated("task %s at %s is done, but hook %s did not succeed for it", r.Task, r.Node, h)
	}
	if !node.Batch {
		return
	}
	of := [2]string{r.Queue, h.String()}
	if last := c.last[of]; r.Task.Before(last) {
		c.simulation.violated("order: task %s of hook %s in queue %s is done after task %s", r.Task, h, r.Queue, last)
	}
	c.last[of] = r.Task
}

// sync updates the recorded Synchronizations and the objects that hooks have received, if r records the end of a
// Synchronization, or the end of a step that deletes a module. The caller holds mu.
func (c *checks) sync(r store.Record) {
	switch graph.NodeID(r.Node) {
	case lifecycle.GlobalSynchronization, lifecycle.ModuleSynchronization:
		if r.Subject.Hook != "" {
			c.synced[hookName{r.Subject.Module, r.Subject.Hook}] = true
		}
	case lifecycle.ModuleDelete, lifecycle.ModuleRetire:
		c.simulation.hooks.lose(r.Subject.Module, false) // when a module is deleted, its waiting events are dropped
	case lifecycle.ModuleAfterDelete:
		maps.DeleteFunc(c.synced, func(h hookName, _ bool) bool { return h.module == r.Subject.Module })
		c.simulation.hooks.lose(r.Subject.Module, false)
	}
}

// learn reads from the store which Synchronizations are completed and which modules are deleted, because a process
// that crashed directly after a commit has not reported this commit. It reads the records since the last process
// started. If the store was replaced, it reads them since the last start run began, because this run resumes if it has
// not ended.
func (c *checks) learn(tx *store.Tx, replaced bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.simulation.process.booted
	for run, err := range store.RunsBackwards(tx) {
		if err != nil {
			return err
		}
		if run.Trigger == string(lifecycle.OnStart) {
			c.begin(run)
			if replaced {
				since = run.Began
			}
			break
		}
	}
	var done []store.Record
	for k := range tx.Range(store.At(store.History)) {
		r, _, err := store.Load[store.Record](tx, k)
		if err != nil {
			return err
		}
		if r.State == store.Done && !r.Ended.Before(since) {
			done = append(done, r)
		}
	}
	slices.SortStableFunc(done, func(a, b store.Record) int { return a.Ended.Compare(b.Ended) })
	for _, r := range done {
		c.sync(r)
	}
	return nil
}

func because(r store.Record) string {
	text := r.Error
	if text == "" {
		text = r.Detail
	}
	if text == "" {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimSuffix(text, " (Client.Timeout exceeded while awaiting headers)") // two timeouts have the same length, and either can end first, so the text would differ between equal simulations
	return ": " + text
}

func (hs *hooks) hasSucceeded(task string, h hookName) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.succeeded[task+" "+h.String()]
}

// committed is called after each commit of the process p. After each c.every commits, it checks the whole store.
func (c *checks) committed(p *process, _ int) {
	c.mu.Lock()
	c.commits++
	due := c.commits%c.every == 0
	c.mu.Unlock()
	if p.db == nil || !due {
		return
	}
	if err := p.db.Check(); err != nil {
		c.simulation.violated("the store is not consistent: %v", err)
	}
}

// read calls fn with a read transaction on a copy of the store, and checks the whole copy.
func (c *checks) read(fn func(*store.Tx) error) error {
	db, err := store.OpenMemory(c.simulation.disk.Clone(), store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.View(fn), db.Check(), db.Close())
}

// stored checks the store after a process of the operator has ended, and before the next one starts. The message about
// a violation begins with the text in when.
func (c *checks) stored(when string) {
	if err := c.read(func(tx *store.Tx) error { return c.learn(tx, false) }); err != nil {
		c.simulation.violated("%s, the store is not consistent: %v", when, err)
	}
}

// calm checks the simulation at the end of a time in which nothing fails. At this point, all work must be done, and
// hooks and releases must agree with the cluster.
func (c *checks) calm() {
	w := c.simulation
	if err := c.read(c.rest); err != nil {
		w.violated("calm: %v", err)
	}
	w.hooks.mu.Lock()
	clear(w.hooks.succeeded) // none of these tasks exists any more, so they need not be remembered
	w.hooks.mu.Unlock()
	for _, h := range slices.SortedFunc(maps.Keys(watching), func(a, b hookName) int { return strings.Compare(a.String(), b.String()) }) {
		if h.module != "" && !w.enabled[h.module] {
			continue
		}
		if diff := difference(w.hooks.seen(h), w.existing(watching[h])); diff != "" {
			w.violated("calm: the objects that hook %s received differ from the existing objects: %s", h, diff)
		}
		existing := w.existing(watching[h])
		for _, name := range w.hooks.undeleted(h) {
			if _, ok := existing[name]; !ok {
				w.violated("calm: hook %s got an event about object %s, and none about its deletion", h, name)
			}
		}
	}
	for _, module := range moduleNames {
		c.release(module)
	}
}

// stalled returns, by queue, the first task of each queue if the task could start but is not claimed. The argument
// before is the result of the previous call. If a task is in both results, stalled reports a violation.
func (c *checks) stalled(before map[string]store.ID) map[string]store.ID {
	now, first := map[string]store.ID{}, map[string]bool{}
	if err := c.read(func(tx *store.Tx) error {
		for t, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			if first[t.Queue] {
				continue
			}
			if first[t.Queue] = true; t.Claim == nil && t.Failed == nil && t.Due.IsZero() {
				now[t.Queue] = t.ID
			}
		}
		return nil
	}); err != nil {
		c.simulation.violated("calm: %v", err)
	}
	for _, queue := range slices.Sorted(maps.Keys(now)) {
		if now[queue] == before[queue] {
			c.simulation.violated("calm: task %s is the first of queue %s and does not start", now[queue], queue)
		}
	}
	return now
}

// rest returns an error if the store has pending, deferred or held tasks, or runs that have not ended.
func (c *checks) rest(tx *store.Tx) error {
	for t, err := range store.AllTasks(tx) {
		if err != nil {
			return err
		}
		return fmt.Errorf("task %s at %s is left in queue %s: due %s, failed %v", t.ID, t.Node, t.Queue, t.Due, t.Failed)
	}
	for t, err := range store.DeferredTasks(tx) {
		if err != nil {
			return err
		}
		return fmt.Errorf("task %s at %s is still deferred", t.ID, t.Node)
	}
	for t, err := range store.AllHeldTasks(tx) {
		if err != nil {
			return err
		}
		return fmt.Errorf("task %s at %s is still held", t.ID, t.Node)
	}
	for run, err := range store.RunsBackwards(tx) {
		if err != nil {
			return err
		}
		if run.Open != 0 || run.Ended.IsZero() {
			return fmt.Errorf("run %d has not ended: %d tasks are open", run.ID, run.Open)
		}
	}
	return nil
}

// release checks the ConfigMap that the chart of a module has: it must not exist if the module is disabled. Otherwise
// it must show the module's current setting.
func (c *checks) release(module string) {
	w := c.simulation
	state := w.network.server.objects[address{"configmaps", namespace, module + "-state"}]
	if !w.enabled[module] {
		if state != nil {
			w.violated("calm: module %s is off, but its release has objects", module)
		}
		return
	}
	if state == nil {
		w.violated("calm: the release of module %s lacks its ConfigMap", module)
		return
	}
	data, _ := state.content["data"].(map[string]any)
	if data["setting"] != w.settings[module] {
		w.violated("calm: the release of module %s has setting %v, want %s", module, data["setting"], w.settings[module])
	}
	if module == "alpha" {
		var shown map[string]string
		text, _ := data["objects"].(string)
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			w.violated("calm: the release of module alpha shows %q", text)
		}
		if diff := difference(shown, w.existing(module)); diff != "" {
			w.violated("calm: the release of module alpha shows other objects than exist: %s", diff)
		}
	}
	if module == "gamma" && w.network.server.objects[address{"configmaps", "apps", "report-gamma"}] == nil {
		w.violated("calm: the object that a hook of module gamma creates is missing")
	}
}
