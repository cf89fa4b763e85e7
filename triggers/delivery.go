package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Upper limits for the writes of one event, without its payload: its task and claim, its run, a
// line of history, and the count of its backlog.
const (
	eventKeys  = 10
	eventBytes = 6 << 10
)

// recordCost is the upper limit of the cost of writing the cursor's record of an object.
var recordCost = store.Limits{Ops: 1, Bytes: 4 << 10}

// smallestShare is the largest number by which the budget of a piece is divided.
const smallestShare = 1 << 12

// A position is the place in a delivery at which its next piece begins.
type position struct {
	object int
	owner  int // index in the list of the object's owners
}

// A fillPiece adds deliveries to p, beginning at the position from. A fillPiece returns the
// position that it has reached, and whether all is done.
type fillPiece func(p *piece, from position) (to position, done bool, err error)

// inPieces calls fill in successive transactions until fill reports that all is done. Each call of
// fill gets the position that the previous call has reached. The events of a piece are raised in
// its transaction. A piece that is too large for a commit is filled again with a smaller budget.
func (r *receiver) inPieces(ctx context.Context, source kube.Source, fill fillPiece) error {
	var at position
	for share := 1; ; {
		var to position
		done := false
		err := r.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
			p := newPiece(tx, source, share)
			p.reduced, p.attached, p.moveDamaged = r.reduced, r.attached, r.moveDamaged
			if to, done, err = fill(p, at); err != nil {
				return err
			}
			return r.engine.Raise(tx, p.events...)
		})
		switch {
		case errors.Is(err, store.ErrTooLarge) && share < smallestShare:
			share *= 4
			continue
		case err != nil || done:
			return err
		}
		at, share = to, 1
	}
}

// deliverAll delivers changes of source in pieces. It calls the function finish in the transaction
// of the last piece.
func (r *receiver) deliverAll(ctx context.Context, source kube.Source, changes []kube.Change, finish func(*store.Tx) error) error {
	return r.inPieces(ctx, source, func(p *piece, at position) (position, bool, error) {
		for ; at.object < len(changes); at.object++ {
			if done, err := p.move(changes[at.object]); err != nil || !done {
				return at, false, err
			}
		}
		return at, true, finish(p.tx)
	})
}

// A piece is the part of a delivery that one transaction writes.
type piece struct {
	tx       *store.Tx
	source   kube.Source
	budget   store.Limits
	events   []workflow.Event
	cost     store.Limits // cost of raising the events
	begun    bool         // something was delivered
	bindings map[string]*target
	marks    map[string]mark // by filter
	absent   *absence        // absent owners of the last change
	reduced  func(graph.Subject, *kube.Object, int)
	attached func(text string) (graph.Subject, bool)

	moveDamaged func(*store.Tx, *store.RecordError) error

	payloads map[bool]json.RawMessage // payloads with and without the whole object
	payload  *kube.Object             // object of the payloads
}

// A target is an attached binding that an event is delivered to.
type target struct {
	subject graph.Subject
	binding store.Binding
	config  hook.KubernetesBinding
}

func newPiece(tx *store.Tx, source kube.Source, share int) *piece {
	budget := tx.Budget()
	budget.Ops, budget.Bytes = budget.Ops/share, budget.Bytes/share
	return &piece{tx: tx, source: source, budget: budget, bindings: map[string]*target{}, marks: map[string]mark{}}
}

// target returns the named binding; nil if it is not attached.
func (p *piece) target(name string) (*target, error) {
	if t, known := p.bindings[name]; known {
		return t, nil
	}
	t := &target{subject: SubjectOf(name)}
	s := t.subject
	var ok bool
	var err error
	t.binding, ok, err = store.Load[store.Binding](p.tx, store.BindingKey(s.Module, s.Hook, s.Binding))
	if err != nil {
		return nil, err
	}
	if !ok || t.binding.Detached || t.binding.Kind != store.Kubernetes {
		t = nil
	} else if err := json.Unmarshal(t.binding.Config, &t.config); err != nil {
		return nil, fmt.Errorf("binding %s in the store: %w", s.Binding, err)
	}
	p.bindings[name] = t
	return t, nil
}

// room reports whether writes of the given cost fit in the piece. Writes of any cost fit in an
// empty piece.
func (p *piece) room(cost store.Limits) bool {
	w := p.tx.Written()
	fits := w.Ops+p.cost.Ops+cost.Ops <= p.budget.Ops && w.Bytes+p.cost.Bytes+cost.Bytes <= p.budget.Bytes
	return fits || !p.begun
}

// add adds events to the piece if there is room for all of them, and reports whether there was.
func (p *piece) add(events []workflow.Event) bool {
	var cost store.Limits
	for _, ev := range events {
		// each chunk of the payload is written, and a chunk of a replaced payload may be deleted
		cost.Ops += eventKeys + 2*(len(ev.Payload)/store.PayloadChunk+1)
		cost.Bytes += eventBytes + len(ev.Payload)
	}
	if !p.room(cost) {
		return false
	}
	p.begun = true
	p.events = append(p.events, events...)
	p.cost.Ops, p.cost.Bytes = p.cost.Ops+cost.Ops, p.cost.Bytes+cost.Bytes
	return true
}

// move delivers one change to its owners and updates the cursor. The events for an owner depend on
// the state of the object that the cursor records as delivered to that owner. If the piece has no
// room for all owners, the cursor records which owners are behind, and the result done is false. The next piece must
// then move the same change again.
func (p *piece) move(c kube.Change) (done bool, err error) {
	o := c.Object
	if o.Unfiltered && c.Type != kube.Deleted {
		return true, nil
	}
	key := objectKey(p.cursor(c.Filter), o)
	deleted := c.Type == kube.Deleted
	record, known, err := store.Load[delivered](p.tx, key)
	lost := unreadable(err, store.Cursors)
	if err != nil && lost == nil {
		return false, err
	}
	before := &record
	if !known && (lost == nil || !deleted) { // the deletion of an object whose record is lost is delivered
		before = nil
	}
	if before.shows(c) {
		return true, nil
	}
	if !p.room(recordCost) {
		return false, nil
	}
	if lost != nil {
		record = delivered{} // Load may have decoded a part
		if err := p.moveDamaged(p.tx, lost); err != nil {
			return false, err
		}
	}
	now := newDelivered(o)
	now.Gone = deleted
	c, missing, err := p.withAbsent(c)
	if err != nil {
		return false, err
	}
	whole, err := p.deliver(c, key, before, &now)
	if err != nil {
		return false, err
	}
	for _, t := range missing {
		name := owner(t.subject)
		state := before.deliveredTo(name, t.binding.AttachedIn)
		if state.equals(&now) {
			continue
		}
		now.leave(state, name, t.binding.AttachedIn)
		if err := p.markBehind(c.Filter, t.subject.String()); err != nil {
			return false, err
		}
	}
	if err := p.copyBehind(&now, before, c.Owners); err != nil {
		return false, err
	}
	if deleted && len(now.Behind) == 0 {
		p.begun = true
		p.tx.Delete(key)
		return whole, nil
	}
	return whole, p.save(key, now)
}

// withAbsent adds to c those absent owners that can get c. The result missing has the other absent owners, which are
// behind until they join the watch: c lacks the whole object that they need, or it is unknown whether the namespace
// still matches their labels.
func (p *piece) withAbsent(c kube.Change) (to kube.Change, missing []*target, err error) {
	absent, err := p.absentOf(c)
	if err != nil {
		return c, nil, err
	}
	c.Owners = slices.Clip(c.Owners)
	for _, t := range absent {
		if t.config.Namespaces.LabelSelector != nil || t.config.KeepFullObjects && c.Object.Raw == nil {
			missing = append(missing, t)
		} else {
			c.Owners = append(c.Owners, owner(t.subject))
		}
	}
	return c, missing, nil
}

// An absence is the result of a search for absent owners.
type absence struct {
	of     kube.Change
	owners []*target
}

// absentOf returns the absent owners of the cursor of c. An absent owner is an attached binding that is an owner of the
// cursor, but has not joined the watch in this process yet. Changes of one view mostly have the same owners, so
// absentOf keeps its last result.
func (p *piece) absentOf(c kube.Change) ([]*target, error) {
	if last := p.absent; last != nil && last.of.Filter == c.Filter && slices.Equal(last.of.Owners, c.Owners) && slices.Equal(last.of.Others, c.Others) {
		return last.owners, nil
	}
	m, err := p.mark(c.Filter)
	if err != nil {
		return nil, err
	}
	found := &absence{of: c}
	for _, text := range slices.Sorted(maps.Keys(m.Owners)) {
		subject, attached := p.attached(text)
		name := owner(subject)
		if !attached || slices.Contains(c.Owners, name) || slices.Contains(c.Others, name) {
			continue
		}
		t, err := p.target(name)
		if err != nil {
			return nil, err
		}
		if t != nil && t.binding.AttachedIn == m.Owners[text] {
			found.owners = append(found.owners, t)
		}
	}
	p.absent = found
	return found.owners, nil
}

// cursor returns the key of the cursor with that filter.
func (p *piece) cursor(filter string) store.Key {
	return cursorKey(kube.View{Source: p.source, Filter: filter})
}

// mark returns the mark of the cursor with that filter; an empty one if there is none.
func (p *piece) mark(filter string) (mark, error) {
	m, known := p.marks[filter]
	if known {
		return m, nil
	}
	m, _, err := store.Load[mark](p.tx, markKey(p.cursor(filter)))
	p.marks[filter] = m
	return m, err
}

// markBehind records in the mark of the cursor with that filter that a binding is behind.
func (p *piece) markBehind(filter, binding string) error {
	m, err := p.mark(filter)
	if err != nil || slices.Contains(m.Behind, binding) {
		return err
	}
	m.Behind = append(slices.Clip(m.Behind), binding)
	p.marks[filter] = m
	return store.Save(p.tx, markKey(p.cursor(filter)), m)
}

// shows reports whether d says that c is already delivered to all owners. d is the cursor's record
// of the object; nil if there is no record.
func (d *delivered) shows(c kube.Change) bool {
	if c.Type == kube.Deleted {
		return d == nil
	}
	return d != nil && len(d.Behind) == 0 && d.UID == c.Object.UID && d.Checksum == c.Object.Checksum
}

// deliver adds the events of c to the piece. If the piece has no room for the events of an owner,
// deliver records this owner, and all later owners with events, in now.Behind and returns false.
func (p *piece) deliver(c kube.Change, key store.Key, before, now *delivered) (whole bool, err error) {
	whole = true
	for _, name := range c.Owners {
		t, err := p.target(name)
		if err != nil {
			return false, err
		}
		if t == nil {
			continue
		}
		state := before.deliveredTo(name, t.binding.AttachedIn)
		events, err := p.changesFor(t, key, state, c)
		if err != nil {
			return false, err
		}
		if len(events) > 0 && (!whole || !p.add(events)) {
			whole = false
			now.leave(state, name, t.binding.AttachedIn)
		}
	}
	return whole, nil
}

// save writes the cursor's record of an object.
func (p *piece) save(key store.Key, t delivered) error {
	p.begun = true
	return store.Save(p.tx, key, t)
}

// copyBehind copies bindings from before.Behind to now.Behind. It leaves out bindings that are not attached any more or
// are among owners.
func (p *piece) copyBehind(now, before *delivered, owners []string) error {
	if before == nil {
		return nil
	}
	for _, b := range before.Behind {
		for name, attachedIn := range b.Owners {
			t, err := p.target(name)
			if err != nil {
				return err
			}
			if t != nil && t.binding.AttachedIn == attachedIn && !slices.Contains(owners, name) {
				now.leave(b.State, name, attachedIn)
			}
		}
	}
	return nil
}

// changesFor returns the events of the change c for the binding t, to which state was last delivered. If state and c
// describe the same object, there is a Modified event, or no event if nothing has changed. If state describes another
// object with the same name, the events are Deleted and Added. Events of types to which the binding does not subscribe
// are left out.
func (p *piece) changesFor(t *target, key store.Key, state *delivered, c kube.Change) ([]workflow.Event, error) {
	o := c.Object
	switch {
	case c.Type == kube.Deleted && !state.exists():
		return nil, nil
	case c.Type == kube.Deleted:
		return p.event(nil, t, kube.Deleted, o)
	case !state.exists():
		return p.event(nil, t, kube.Added, o)
	case state.UID != o.UID:
		old, err := remembered(key, *state, p.source)
		if err != nil {
			return nil, err
		}
		events, err := p.event(nil, t, kube.Deleted, old)
		if err != nil {
			return nil, err
		}
		return p.event(events, t, kube.Added, o)
	case state.Checksum != o.Checksum:
		return p.event(nil, t, kube.Modified, o)
	}
	return nil, nil
}

// addFor adds an Added event of o for each owner that subscribes to such events, beginning at the index next. It stops
// if the piece has no room for an event, and returns the index of the owner at which it stopped, or len(owners).
func (p *piece) addFor(owners []string, next int, o *kube.Object) (int, error) {
	for ; next < len(owners); next++ {
		t, err := p.target(owners[next])
		if err != nil {
			return next, err
		}
		if t == nil {
			continue
		}
		events, err := p.event(nil, t, kube.Added, o)
		if err != nil || len(events) > 0 && !p.add(events) {
			return next, err
		}
	}
	return next, nil
}

// saveAdded writes the cursor's record of an object that was delivered to all owners but those in
// missing.
func (p *piece) saveAdded(key store.Key, o *kube.Object, missing []string) error {
	now := newDelivered(o)
	for _, name := range missing {
		t, err := p.target(name)
		if err != nil {
			return err
		}
		if t != nil {
			now.leave(nil, name, t.binding.AttachedIn)
		}
	}
	return p.save(key, now)
}

// event appends the event of a change to events, if the binding subscribes to its type.
func (p *piece) event(events []workflow.Event, t *target, change kube.ChangeType, o *kube.Object) ([]workflow.Event, error) {
	if !slices.Contains(t.config.Events, string(change)) {
		return events, nil
	}
	payload, err := p.payloadOf(t, o)
	if err != nil {
		return nil, err
	}
	name, kind := o.Name, p.source.Kind
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	manager := o.Manager
	if change == kube.Deleted {
		manager = "" // because a deleted object does not show who deleted it
	}
	ev := workflow.Event{
		On: lifecycle.OnModuleKubeEvent, Subject: t.subject, Queue: t.binding.Queue, Payload: payload,
		AllowFailure: t.config.AllowFailure, NoBatch: t.config.Legacy,
		Object: &store.ObjectRef{
			Event: string(change), Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		},
		Cause: store.Cause{Object: kind + " " + name, ResourceVersion: o.ResourceVersion, Event: string(change), Manager: manager},
	}
	if t.subject.Module == "" {
		ev.On = lifecycle.OnGlobalKubeEvent
	}
	return append(events, ev), nil
}

// payloadOf returns the payload of an event of o for the binding. All bindings of a view that keep
// full objects share one payload, and all others share another one. Parts that are too large for
// one transaction are omitted.
func (p *piece) payloadOf(t *target, o *kube.Object) (json.RawMessage, error) {
	if p.payload != o {
		p.payload, p.payloads = o, map[bool]json.RawMessage{}
	}
	full := t.config.KeepFullObjects
	if payload := p.payloads[full]; payload != nil {
		return payload, nil
	}
	item := hook.Item{FilterResult: o.FilterResult}
	if full {
		item.Object = o.Raw
	}
	payload, err := json.Marshal(item)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", p.source.Kind, o.Namespace, o.Name, err)
	}
	if size, most := len(payload), largestPayload(p.tx); size > most {
		if payload, err = reducedItem(item, o, p.source, most); err != nil {
			return nil, err
		}
		if p.reduced != nil {
			p.tx.OnCommit(func() { p.reduced(t.subject, o, size) })
		}
	}
	p.payloads[full] = payload
	return payload, nil
}

// largestPayload returns the maximum size of an event's payload in bytes: three quarters of the limit of a transaction.
// The budget is half of this limit.
func largestPayload(tx *store.Tx) int { return tx.Budget().Bytes * 3 / 2 }

// reducedItem returns item with only the identity of the object. If this is still larger than the
// limit most, in bytes, reducedItem leaves out the filter result, too.
func reducedItem(item hook.Item, o *kube.Object, source kube.Source, most int) (json.RawMessage, error) {
	var err error
	if item.Object != nil {
		if item.Object, err = identityOf(o, source); err != nil {
			return nil, err
		}
	}
	payload, err := json.Marshal(item)
	if err != nil || len(payload) <= most {
		return payload, err
	}
	item.FilterResult = nil
	return json.Marshal(item)
}
