package workflow

import (
	"iter"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// openings opens lanes. A lane is shut as long as something blocks its first task. A transition
// that may have unblocked tasks of a module checks the lanes of the module before it ends.
type openings struct {
	*txn
	queues *queues
	gate   *gate

	changed []string // modules whose held tasks may start now; "" means the held tasks without a module
}

// mayUnblock records that this transition may allow held tasks of the module of s to start. If s has no module,
// mayUnblock records the same for the held tasks without a module, such as those of global hooks. If s is a
// configuration, mayUnblock records nothing: only a quarantine holds tasks about configurations, and freeHeld unblocks
// them when the quarantine ends.
func (o *openings) mayUnblock(s graph.Subject) {
	if s.Configuration == "" {
		o.mayUnblockModule(s.Module)
	}
}

func (o *openings) mayUnblockModule(module string) {
	if !slices.Contains(o.changed, module) {
		o.changed = append(o.changed, module)
	}
}

// reopenChanged checks the shut lanes of each module in o.changed, and opens a lane if nothing blocks its tasks any
// more.
func (o *openings) reopenChanged() error {
	if len(o.changed) == 0 {
		return nil
	}
	changed := o.changed
	o.changed = nil
	for _, module := range changed {
		if err := o.reopenOf(module); err != nil {
			return err
		}
	}
	return nil
}

// reopenAll opens the shut lanes whose first tasks are no longer blocked.
func (o *openings) reopenAll() error {
	return o.reopen(store.ShutLanes(o.tx), followUp{work: openLanes, queue: deferredTasks})
}

// reopenOf is like reopenAll, but only for the lanes of one module or, if module is empty, for those of tasks without a
// module.
func (o *openings) reopenOf(module string) error {
	return o.reopen(store.ShutLanesOf(o.tx, module), followUp{work: openLanesOf, queue: deferredTasks, module: module})
}

// reopen opens each of the given lanes if nothing blocks its tasks any more. If the budget is
// spent, reopen leaves the other lanes to a follow-up, which is the parameter rest.
func (o *openings) reopen(lanes iter.Seq2[store.Lane, error], rest followUp) error {
	for lane, err := range lanes {
		if err != nil {
			return err
		}
		if !o.fits(claimCost) {
			o.later(rest)
			return nil
		}
		if err := o.reopenLane(lane); err != nil {
			return err
		}
	}
	return nil
}

func (o *openings) reopenLane(lane store.Lane) error {
	t, err := firstHeld(o.tx, lane.LaneKey)
	if err != nil {
		return err
	}
	reason, err := o.stillBlocked(t)
	if err != nil {
		return err
	}
	if reason != nil {
		if *reason == lane.Reason {
			return nil
		}
		lane.Reason = *reason
		return store.SaveLane(o.tx, lane)
	}
	if err := o.queues.saveTop(); err != nil {
		return err
	}
	tail, err := store.TailSlot(o.tx, lane.Queue)
	if err != nil {
		return err
	}
	lane.Open, lane.After = true, tail-1
	o.queues.touch(lane.Queue)
	return store.SaveLane(o.tx, lane)
}

// stillBlocked returns the reason for which t stays held; nil if there is none. A task at a node
// that this version does not have returns to its queue, where it is removed.
func (o *openings) stillBlocked(t *store.Task) (*store.Reason, error) {
	if t == nil {
		return nil, nil
	}
	b, n, err := o.graphs.boundTo(t)
	if err != nil {
		return nil, nil //nolint:nilerr // the task returns to its queue
	}
	return o.gate.heldBy(b, n, t)
}
