package workflow

import (
	"fmt"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// mostNamed is the maximum number of tasks that an ErrAmbiguous names.
const mostNamed = 5

// Find returns the ID of the pending or quarantined task with the given name. The name is an ID, a module, a hook as
// MODULE/HOOK, a global hook, or an addons configuration. If several tasks have the name, Find selects those that are
// failing. If none is failing, Find selects those in the first of these states that occurs: running, interrupted,
// quarantined, waiting. If several tasks are selected, the error is ErrAmbiguous. If no task has the name, the error is
// ErrNoTask. A name in the form of an ID is returned unchanged, even if no task has this ID.
func (e *Engine) Find(name string) (store.ID, error) {
	if id, err := store.ParseID(name); err == nil {
		return id, nil
	}
	f := finder{name: name}
	err := e.db.View(func(tx *store.Tx) error {
		f.tx = tx
		return f.search()
	})
	if err != nil {
		return store.ID{}, err
	}
	return f.result()
}

// A rank is the state of a task. Of the tasks with the given name, Find selects those with the
// lowest rank.
type rank int

const (
	failing rank = iota
	running
	interrupted
	quarantined
	waiting
	ranks // number of ranks
)

// finder searches for the tasks with a name.
type finder struct {
	tx    *store.Tx
	name  string
	found [ranks][]string // descriptions for people
	first [ranks]store.ID
}

// search searches the begun tasks, the failing tasks that a rate limit defers, and the quarantined
// items. If none of them has the name, search searches the other tasks.
func (f *finder) search() error {
	if err := eachHead(f.tx, f.begun); err != nil {
		return err
	}
	if err := eachDeferred(f.tx, f.begun); err != nil {
		return err
	}
	for q, err := range store.QuarantinedItems(f.tx) {
		if err != nil {
			return err
		}
		if q.Paused == nil && f.means(q.Subject) {
			f.add(quarantined, q.ID, q.Node, q.Subject, q.Queue)
		}
	}
	for r := range waiting {
		if len(f.found[r]) > 0 {
			return nil
		}
	}
	if err := eachQueued(f.tx, func(t, _ *store.Task) error {
		f.addWaiting(t)
		return nil
	}); err != nil {
		return err
	}
	return eachOut(f.tx, store.AllHeldTasks(f.tx), func(t *store.Task) error {
		f.addWaiting(t)
		return nil
	})
}

// addWaiting adds t, which waits, if its subject has the name.
func (f *finder) addWaiting(t *store.Task) {
	if f.means(t.Subject) {
		f.add(waiting, t.ID, t.Node, t.Subject, t.Queue)
	}
}

// begun adds t if t has begun or is failing, and its subject has the name. The subject of a fan-out
// task is that of its current item.
func (f *finder) begun(t *store.Task) error {
	s, r := t.Subject, interrupted
	switch {
	case t.Failed != nil && !t.Due.IsZero():
		s, r = t.Failed.Subject, failing
	case t.Claim == nil && !t.Journal:
		return nil
	case claimed(f.tx, t):
		r = running
	}
	if r != failing {
		var err error
		if s, err = itemOf(f.tx, t); err != nil {
			return err
		}
	}
	if f.means(s) {
		f.add(r, t.ID, t.Node, s, t.Queue)
	}
	return nil
}

// means reports whether f.name names the tasks with the subject s.
func (f *finder) means(s graph.Subject) bool {
	if s.Configuration != "" {
		return f.name == s.Configuration
	}
	hook := s.OfHook().String()
	return hook != "" && (f.name == hook || f.name == s.Module)
}

func (f *finder) add(r rank, id store.ID, node string, s graph.Subject, queue string) {
	if len(f.found[r]) == 0 {
		f.first[r] = id
	}
	if len(f.found[r]) <= mostNamed {
		f.found[r] = append(f.found[r], fmt.Sprintf("%s (%s %s in queue %s)", id, node, s, queue))
	}
}

func (f *finder) result() (store.ID, error) {
	for r, found := range f.found {
		switch {
		case len(found) == 1:
			return f.first[r], nil
		case len(found) > mostNamed:
			found = append(found[:mostNamed:mostNamed], "…")
			fallthrough
		case len(found) > 1:
			return store.ID{}, fmt.Errorf("%s: %w: %s", f.name, ErrAmbiguous, strings.Join(found, ", "))
		}
	}
	return store.ID{}, fmt.Errorf("%s: %w, and no module, hook or configuration with a pending task has this name", f.name, ErrNoTask)
}
