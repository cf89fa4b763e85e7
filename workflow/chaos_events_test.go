package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing/synctest"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// modulesOfChaos are the modules of a chaos. The global hooks belong to the module with the empty name.
var modulesOfChaos = []string{"", "m0", "m1", "m2"}

// gatekeeper is the name of a hook in each module. The hook has no gate itself, and opens the gate of the other hooks
// of its module.
const gatekeeper = "gatekeeper"

// watched are the objects that the hooks of a chaos watch. The binding of a hook gets the events of an object once, in
// order and up to the last one, except those that were coalesced or lost.
type watched struct {
	n         int                       // number of the last event
	objects   map[string]*watchedObject // by binding and name
	coalesced map[uint64]bool           // runs of events whose payload a waiting event got
	// lost are the runs whose event or tick was dropped, skipped or superseded, or failed in a binding that allows
	// failures.
	lost map[uint64]bool
}

type watchedObject struct {
	exists bool
	uid    string
	events []*watchedEvent
}

type watchedEvent struct {
	N       int    `json:"n"`
	Padding string `json:"padding"` // makes the payload long
	run     uint64
}

func newWatched() watched {
	return watched{objects: map[string]*watchedObject{}, coalesced: map[uint64]bool{}, lost: map[uint64]bool{}}
}

// next returns the next event of one of the objects, and the record of this event. The parameter which selects
// the object and the kind of its change.
func (w *watched) next(which int) (workflow.Event, *watchedEvent) {
	ev := bindingOf(which / 3)
	ev.Subject.Module, ev.NoBatch = fmt.Sprint("m", which%3), which%11 == 0
	ev.Object = &store.ObjectRef{Event: "Modified", Kind: "ConfigMap", Name: fmt.Sprint("o", which/2%3)}
	name := objectOf(ev.Subject, ev.Object)
	o := w.objects[name]
	if o == nil {
		o = &watchedObject{}
		w.objects[name] = o
	}
	w.n++
	switch {
	case !o.exists:
		ev.Object.Event, o.uid = "Added", fmt.Sprint("uid-", w.n)
	case which%7 == 0:
		ev.Object.Event = "Deleted"
	}
	o.exists, ev.Object.UID = ev.Object.Event != "Deleted", o.uid
	e := &watchedEvent{N: w.n}
	switch {
	case which == 30:
		e.Padding = strings.Repeat("x", store.PayloadChunk)
	case which%5 == 0:
		e.Padding = strings.Repeat("x", store.InlinePayload)
	}
	o.events = append(o.events, e)
	ev.Payload, _ = json.Marshal(e) //nolint:errchkjson // the fields can be encoded
	return ev, e
}

// bindingOf returns an event of one of the bindings, without its module and its object. Each binding has one queue.
func bindingOf(which int) workflow.Event {
	i := which % 4
	ev := in([]string{"q0", "q0", "main", "parallel-0"}[i], on(lifecycle.OnModuleKubeEvent, "", fmt.Sprint("h", i/2), fmt.Sprint("b", i)))
	ev.AllowFailure = i == 3
	return ev
}

func objectOf(s graph.Subject, o *store.ObjectRef) string { return s.String() + " " + o.Name }

// happenToEvents executes the action d, which concerns events of objects.
func (c *chaos) happenToEvents(d chaosAction) {
	module := modulesOfChaos[d.Which%len(modulesOfChaos)]
	switch d.What {
	case "event":
		c.raiseEvents(d.Which)
	case "burst": // of one object, or of several
		var which []int
		for i := range 2 + d.Which%6 {
			which = append(which, d.Which+i*(d.Which/2%2))
		}
		c.raiseEvents(which...)
	case "withdraw":
		if c.unsound {
			return // the method withdraw fails if it reads a damaged record; the withdrawals of applyStep remain
		}
		binding, object := bindingOf(d.Which), fmt.Sprint("o", d.Which%3)
		c.withdraw(binding.Queue, fmt.Sprint("m", d.Which%3), binding.Subject.Hook, func(t *store.Task) bool { return t.Object.Name == object })
	case "close":
		if err := c.update(func(tx *store.Tx) error { return store.Save(tx, gateKey(module), "as the test requires") }); err != nil {
			c.t.Error(err)
		}
	case "open":
		c.openGates(module)
	}
}

// raiseEvents raises events of objects in one transaction.
func (c *chaos) raiseEvents(which ...int) {
	var events []workflow.Event
	var records []*watchedEvent
	for _, n := range which {
		ev, e := c.watched.next(n)
		events, records = append(events, ev), append(records, e)
	}
	if err := c.update(func(tx *store.Tx) error {
		first, err := store.NextRun(tx)
		if err != nil {
			return err
		}
		for i, e := range records {
			e.run = first + uint64(i) //nolint:gosec // an index is not negative
		}
		return c.e.Raise(tx, events...)
	}); err != nil {
		c.t.Error(err)
	}
	synctest.Wait()
}

// raise raises events in one transaction, and waits until all goroutines are blocked.
func (c *chaos) raise(events ...workflow.Event) {
	if err := c.update(func(tx *store.Tx) error { return c.e.Raise(tx, events...) }); err != nil {
		c.t.Error(err)
	}
	synctest.Wait()
}

// update runs fn in a transaction. If fn reads a damaged record, update repeats fn after the engine has moved the
// record.
func (c *chaos) update(fn func(*store.Tx) error) (err error) {
	for range mostActions { // because each action damages at most one record
		if err = c.db.Update(fn); !workflow.Repairable(err) {
			return err
		}
		synctest.Wait()
	}
	return err
}

// recordEvent records what has become of the event or tick of r's run.
func (c *chaos) recordEvent(r store.Record) {
	n, _ := lifecycle.Graph.Node(graph.NodeID(r.Node))
	if !n.Batch {
		return
	}
	c.locked(func() {
		switch r.State {
		case store.Joined:
			c.watched.coalesced[r.Run] = true
		case store.Dropped, store.Skipped, store.Allowed, store.Superseded:
			c.watched.lost[r.Run] = true
		case store.Done, store.Failed, store.Quarantined:
		}
	})
}

// A reaction is the step of events and schedule ticks. It is held while the gate of its module is closed.
type reaction struct{ limited }

func (r reaction) Gate(tx *store.Tx, t *store.Task) (why string, err error) {
	if t.Subject.Hook != gatekeeper {
		why, _, err = store.Load[string](tx, gateKey(t.Subject.Module))
	}
	return why, err
}

// openGates raises a schedule tick of the gatekeeper of each module, which opens the gate of the module. A gate opens
// in the transition that ends a step of its module, as [workflow.Gater] requires.
func (c *chaos) openGates(modules ...string) {
	for _, module := range modules {
		trigger := lifecycle.OnModuleSchedule
		if module == "" {
			trigger = lifecycle.OnGlobalSchedule
		}
		c.raise(in("gates", on(trigger, module, gatekeeper, "b")))
	}
}

// doneKey identifies the attempts at t. Attempts at other batches with the same first task are other attempts. But
// if records can be damaged, doneKey does not distinguish them, because a damaged record can take a task out of its
// batch.
func (c *chaos) doneKey(t workflow.Task) string {
	tasks := len(t.Batch)
	if c.unsound {
		tasks = 1
	}
	return fmt.Sprint(t.ID, name(t.Node, t.Subject), tasks)
}

// applyStep is the method Apply of all steps. It records the deliveries of events, opens gates, and withdraws the
// events that a Synchronization has made unnecessary.
func (c *chaos) applyStep(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	if out.Allowed != "" {
		return nil, nil
	}
	c.locked(func() {
		if !c.did[c.doneKey(t)] {
			c.t.Errorf("%s is done, but its last attempt has not succeeded", name(t.Node, t.Subject))
		}
	})
	switch {
	case t.Subject.Hook == gatekeeper, t.Node == string(lifecycle.ModuleRun):
		tx.Delete(gateKey(t.Subject.Module))
	case t.Node == string(lifecycle.ModuleSynchronization) && t.Subject.Hook == "a":
		b := bindingOf(0)
		t.Withdraw(delivered(b.Queue, t.Subject.Module, b.Subject.Hook, func(*store.Task) bool { return true }))
	}
	for _, ev := range t.Batch {
		if ev.Object == nil {
			continue
		}
		if err := c.deliver(tx, ev); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func deliveryKey(object string) store.Key {
	return store.At(store.Releases).Str("delivered").Str(object)
}

// deliver records the delivery of t, and expects that t is newer than the events of its object that were delivered
// before.
func (c *chaos) deliver(tx *store.Tx, t *store.Task) error {
	var e watchedEvent
	if err := json.Unmarshal(t.Payload, &e); err != nil {
		return fmt.Errorf("payload of event %s: %w", t.ID, err)
	}
	object := objectOf(t.Subject, t.Object)
	for k := range tx.Backwards(deliveryKey(object)) {
		p, err := k.Parts()
		if err != nil {
			return err
		}
		p.Str()
		p.Str()
		if last := int(p.Uint()); e.N <= last { //nolint:gosec // the number was an int
			c.t.Errorf("event %d of %s was delivered after event %d", e.N, object, last)
		}
		break
	}
	return store.Save(tx, deliveryKey(object).Uint(uint64(e.N)), delivery{e.N, t.Object.Event}) //nolint:gosec // the number is positive
}

// A delivery is the record of a delivered event: its number and its kind.
type delivery struct {
	N     int
	Event string
}

// expectDelivered expects that the events of each object were delivered up to the last one, except those that were
// lost.
func (c *chaos) expectDelivered() {
	joined := map[uint64]uint64{}
	for _, run := range c.runs() {
		joined[run.ID] = run.Joined
	}
	for name, o := range c.watched.objects {
		c.expectDeliveredOf(name, o, func(e *watchedEvent) bool {
			run := e.run
			for run != 0 && !c.watched.lost[run] {
				run = joined[run] // a batch has one record, in the run of its first event or tick
			}
			return run != 0
		})
	}
}

// expectDeliveredOf expects that each event of an object was delivered, unless it was coalesced or lost.
func (c *chaos) expectDeliveredOf(name string, o *watchedObject, isLost func(*watchedEvent) bool) {
	var all []delivery
	c.view(func(tx *store.Tx) error {
		for k := range tx.Range(deliveryKey(name)) {
			d, _, err := store.Load[delivery](tx, k)
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		return nil
	})
	want, lost := 0, false
	for _, e := range o.events {
		switch {
		case c.watched.coalesced[e.run]:
		case isLost(e):
			lost = true
		default:
			want++
		}
	}
	if len(all) != want {
		c.t.Errorf("%d of %d events of %s were delivered, want %d: %v", len(all), len(o.events), name, want, all)
	}
	if last := o.events[len(o.events)-1]; !isLost(last) && (len(all) == 0 || all[len(all)-1].N != last.N) {
		c.t.Errorf("the last event %d of %s was not delivered: %v", last.N, name, all)
	}
	exists := false
	for _, d := range all {
		if exists == (d.Event == "Added") && !lost {
			c.t.Errorf("the events of %s do not fit together: %v", name, all)
		}
		exists = d.Event != "Deleted"
	}
}
