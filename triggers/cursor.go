package triggers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// keptResult is the maximum size in bytes of a filter result that a cursor keeps. If no watch has delivered the
// deletion of an object, and a later list lacks the object, the hook receives this result with the Deleted event.
const keptResult = 1 << 10

// A mark is the record that describes a cursor as a whole. It exists once all objects of the view were delivered.
type mark struct {
	Source string `json:"source"`
	Filter string `json:"filter,omitempty"`
	// Owners are the bindings to which all objects of the cursor were delivered, each with the epoch in which it was
	// attached. If a binding is attached again in a later epoch, the epochs differ, and the binding is not an owner any
	// more.
	Owners map[string]uint64 `json:"owners,omitempty"`
	// Behind are the owners that have not joined the watch yet, and that have missed a change since their last list.
	Behind []string `json:"behind,omitempty"`
}

// without returns a copy of m without the given bindings in Behind.
func (m mark) without(bindings ...string) mark {
	m.Behind = slices.DeleteFunc(slices.Clone(m.Behind), func(text string) bool { return slices.Contains(bindings, text) })
	return m
}

// knows reports whether the binding s, attached in epoch attachedIn, is an owner.
func (m mark) knows(s graph.Subject, attachedIn uint64) bool {
	in, ok := m.Owners[s.String()]
	return ok && in == attachedIn
}

// listed adds owners to the mark of v's cursor, because all objects of a list of v have been delivered to them.
func listed(tx *store.Tx, v kube.View, owners []string) error {
	key := markKey(cursorKey(v))
	m, ok, err := store.Load[mark](tx, key)
	if err != nil {
		return err
	}
	m.Source, m.Filter = v.Source.String(), v.Filter
	changed, behind := !ok, len(m.Behind)
	for _, name := range owners {
		s := SubjectOf(name)
		m = m.without(s.String())
		b, attached, err := store.Load[store.Binding](tx, store.BindingKey(s.Module, s.Hook, s.Binding))
		if err != nil {
			return err
		}
		if !attached || m.knows(s, b.AttachedIn) {
			continue
		}
		if m.Owners == nil {
			m.Owners = map[string]uint64{}
		}
		m.Owners[s.String()], changed = b.AttachedIn, true
	}
	if !changed && len(m.Behind) == behind {
		return nil
	}
	return store.Save(tx, key, m)
}

// unlist removes bindings from the mark of a cursor: those for which the function left returns true, because they do
// not select the view of the cursor any more. The argument of left is a text as in [mark.Owners].
func unlist(ctx context.Context, db *store.DB, cursor store.Key, left func(binding string) bool) error {
	return db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		m, ok, err := store.Load[mark](tx, markKey(cursor))
		if err != nil || !ok {
			return err
		}
		var gone []string
		for text := range m.Owners {
			if left(text) {
				gone = append(gone, text)
			}
		}
		if len(gone) == 0 {
			return nil
		}
		for _, text := range gone {
			delete(m.Owners, text)
		}
		return store.Save(tx, markKey(cursor), m.without(gone...))
	})
}

// versions has, for each view of a source, the resource version up to which the view was delivered.
// The key is the text of the view's filter.
type versions map[string]string

// A delivered is the state in which an object was delivered.
type delivered struct {
	UID      string          `json:"uid"`
	Checksum string          `json:"checksum"`
	Result   json.RawMessage `json:"result,omitempty"`

	// Gone is set if the object's deletion was delivered, but not yet to the owners in Behind.
	Gone bool `json:"gone,omitempty"`
	// Behind lists the owners to which only an older state was delivered: the transaction that moved
	// the cursor had no room for their events, or they have not joined the watch yet.
	Behind []behind `json:"behind,omitempty"`
}

// A behind names owners of a cursor to which the current state of an object is not yet delivered.
type behind struct {
	// State is the state that was delivered to the owners; nil if the object was not delivered to
	// them.
	State *delivered `json:"state,omitempty"`
	// Owners are the bindings, each with the epoch in which it was attached.
	Owners map[string]uint64 `json:"owners"`
}

// exists reports whether t is the state of an object that exists.
func (t *delivered) exists() bool { return t != nil && !t.Gone }

// equals reports whether t and other are the same state of an object.
func (t *delivered) equals(other *delivered) bool {
	if !t.exists() || !other.exists() {
		return t.exists() == other.exists()
	}
	return t.UID == other.UID && t.Checksum == other.Checksum
}

// deliveredTo returns the state of the object that was delivered to the named binding, which was
// attached in the epoch attachedIn; nil if no state was delivered.
func (t *delivered) deliveredTo(name string, attachedIn uint64) *delivered {
	if t == nil {
		return nil
	}
	for _, b := range t.Behind {
		if in, ok := b.Owners[name]; ok && in == attachedIn {
			return b.State
		}
	}
	return t
}

// leave adds the named binding to t.Behind, because t is not yet delivered to the binding. state is the last state that
// was delivered to the binding.
func (t *delivered) leave(state *delivered, name string, attachedIn uint64) {
	if state.exists() {
		state = &delivered{UID: state.UID, Checksum: state.Checksum, Result: state.Result}
	} else {
		state = nil
	}
	for _, b := range t.Behind {
		if b.State.equals(state) {
			b.Owners[name] = attachedIn
			return
		}
	}
	t.Behind = append(t.Behind, behind{State: state, Owners: map[string]uint64{name: attachedIn}})
}

func cursorKey(v kube.View) store.Key {
	sum := sha256.Sum256([]byte(v.String()))
	return store.At(store.Cursors).Str(hex.EncodeToString(sum[:12]))
}

// markKey returns the key of a cursor's mark. No object has this key, because objects have names.
func markKey(cursor store.Key) store.Key { return cursor.Str("").Str("") }

func objectKey(cursor store.Key, o *kube.Object) store.Key {
	return cursor.Str(o.Namespace).Str(o.Name)
}

func versionKey(s kube.Source) store.Key { return store.At(store.Versions).Str(s.String()) }

// deleteCursor deletes the cursor of v.
func deleteCursor(ctx context.Context, db *store.DB, v kube.View) error {
	return eraseCursor(ctx, db, cursorKey(v), v.Source.String(), v.Filter)
}

// eraseCursor deletes a cursor in several transactions. The first transaction deletes the mark, so
// that the rest of an interrupted deletion is not treated as a cursor.
func eraseCursor(ctx context.Context, db *store.DB, cursor store.Key, source, filter string) error {
	for more := true; more; {
		if err := db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			if more = tx.Erase(cursor); more {
				return nil
			}
			key := store.At(store.Versions).Str(source)
			all, ok, err := store.Load[versions](tx, key)
			if err != nil || !ok {
				return err
			}
			if delete(all, filter); len(all) == 0 {
				tx.Delete(key)
				return nil
			}
			return store.Save(tx, key, all)
		}); err != nil {
			return err
		}
	}
	return nil
}

// A cursor has the key prefix and the mark of a stored cursor.
type cursor struct {
	key  store.Key
	mark mark
}

// allCursors returns all cursors. If the mark of a cursor cannot be read, it is empty in the result.
func allCursors(db *store.DB) (found []cursor, err error) {
	err = db.View(func(tx *store.Tx) error {
		all := store.At(store.Cursors)
		for from, more := all, true; more; {
			more = false
			for k := range tx.RangeFrom(all, from) {
				p, err := k.Parts()
				if err != nil {
					return err
				}
				c := cursor{key: all.Str(p.Str())}
				c.mark, _, err = store.Load[mark](tx, markKey(c.key))
				if unreadable(err, store.Cursors) != nil {
					c.mark, err = mark{}, nil
				}
				if err != nil {
					return err
				}
				found = append(found, c)
				from, more = append(slices.Clip(c.key), 0xff, 0xff, 0xff), true // after all keys of the cursor
				break
			}
		}
		return nil
	})
	return found, err
}

// sweepCursors deletes the cursors that are not in seen, a set of cursor keys.
func sweepCursors(ctx context.Context, db *store.DB, seen map[string]bool) error {
	all, err := allCursors(db)
	if err != nil {
		return err
	}
	for _, c := range all {
		if seen[string(c.key)] {
			continue
		}
		if err := eraseCursor(ctx, db, c.key, c.mark.Source, c.mark.Filter); err != nil {
			return err
		}
	}
	return nil
}

// sweepOwners removes bindings from the cursors whose views they do not select any more. The function isUnused reports
// whether the binding does not use the view v. Its argument binding is a text as in [mark.Owners], and the source of v
// has no kind.
func sweepOwners(ctx context.Context, db *store.DB, isUnused func(binding string, v kube.View) bool) error {
	all, err := allCursors(db)
	if err != nil {
		return err
	}
	for _, c := range all {
		source, err := kube.ParseSource(c.mark.Source)
		if err != nil {
			continue // the view is unknown
		}
		left := func(binding string) bool { return isUnused(binding, kube.View{Source: source, Filter: c.mark.Filter}) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.mark.Owners)), left) {
			continue
		}
		if err := unlist(ctx, db, c.key, left); err != nil { // its transaction asks again, because the views may have changed
			return err
		}
	}
	return nil
}

func newDelivered(o *kube.Object) delivered {
	t := delivered{UID: o.UID, Checksum: o.Checksum}
	if len(o.FilterResult) <= keptResult {
		t.Result = o.FilterResult
	}
	return t
}

// remembered returns an object with the data of t, the record under k in a cursor of source.
func remembered(k store.Key, t delivered, source kube.Source) (*kube.Object, error) {
	p, err := k.Parts()
	if err != nil {
		return nil, err
	}
	_ = p.Str()
	o := &kube.Object{Namespace: p.Str(), Name: p.Str(), UID: t.UID, Checksum: t.Checksum, FilterResult: t.Result}
	if err := p.Err(); err != nil {
		return nil, err
	}
	o.Raw, err = identityOf(o, source)
	return o, err
}

// identityOf returns a Kubernetes object in JSON that has only the kind, the name, the namespace
// and the uid of o.
func identityOf(o *kube.Object, source kube.Source) (json.RawMessage, error) {
	meta := map[string]string{"name": o.Name, "uid": o.UID}
	if o.Namespace != "" {
		meta["namespace"] = o.Namespace
	}
	return json.Marshal(map[string]any{"apiVersion": source.APIVersion(), "kind": source.Kind, "metadata": meta})
}

// reach stores the version up to which the views of source with the given filters were delivered.
func reach(tx *store.Tx, source kube.Source, version string, filters ...string) error {
	all, _, err := store.Load[versions](tx, versionKey(source))
	if err != nil {
		return err
	}
	if all == nil {
		all = versions{}
	}
	for _, filter := range filters {
		all[filter] = version
	}
	return store.Save(tx, versionKey(source), all)
}
