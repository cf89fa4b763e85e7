package bindings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Attached reads the snapshots of the attached bindings of hooks. The caller of its methods must have called
// [Attached.Connect].
type Attached struct{ snapshots Snapshots }

// Connect sets the snapshots of the bindings. It is called once, as soon as the trigger that has the snapshots exists.
func (bs *Attached) Connect(snapshots Snapshots) { bs.snapshots = snapshots }

// Ready waits until the snapshots of all attached kubernetes bindings of the hook are complete.
func (bs *Attached) Ready(ctx context.Context, module, hook string) error {
	return bs.snapshots.Ready(ctx, module, hook)
}

// Reader returns a reader of the snapshots and events of a hook with this configuration. The argument attached has the
// records of the bindings of the events, by ID. It can be nil if the caller reads no events.
func (bs *Attached) Reader(module, name string, config hook.Config, attached map[string]store.Binding) *Reader {
	return &Reader{snapshotsOf: bs.snapshots, module: module, hook: name, config: config, ids: config.BindingIDs(), attached: attached}
}

// Attach replaces the module's bindings in the store with the bindings of the argument hooks, which must have all hooks
// of the module. It returns one item for each binding whose Synchronization must run in this start. The items are in
// the order of hooks, and for one hook in the order of its configuration. For several bindings of a hook with the same
// group and queue, Attach returns one item, because one Synchronization represents all of them. A converge waits for
// this item if one of these bindings has "waitForSynchronization: true". Each binding with
// "executeHookOnSynchronization: false" has an item of its own. An item is Changed if one of its bindings is new or has
// another configuration than before, or if the code of its hook has changed. If a Synchronization of a Changed item is
// already running, its result is ignored and the Synchronization runs again: the running one uses the earlier
// configuration or the earlier code.
func Attach(tx *store.Tx, module string, hooks []Hook) ([]graph.Item, error) {
	l, err := store.LoadStartup(tx)
	if err != nil {
		return nil, err
	}
	a := attacher{tx: tx, start: l.StartRun, kept: map[string]bool{}}
	for _, h := range hooks {
		if err := a.hook(module, h); err != nil {
			return nil, err
		}
	}
	for k := range tx.Range(store.BindingsOf(module)) {
		if a.kept[string(k)] {
			continue
		}
		subject, err := store.ParseBindingKey(k)
		if err != nil {
			return nil, err
		}
		tx.Delete(k)
		tx.Delete(store.TickKey(subject))
	}
	return a.items, nil
}

// ReplaceConversions replaces the attached conversion bindings of module with those of its recorded hooks. If no
// conversion binding is attached, it does nothing, because the module has not attached its bindings yet. A step that
// saves changed hooks of a module calls ReplaceConversions in the same transaction. So a renamed hook or binding
// converts objects from this commit on, including the objects that the module's onStartup hooks request.
func ReplaceConversions(tx *store.Tx, module string) error {
	var attached []store.Key
	for k := range tx.Range(store.BindingsOf(module)) {
		b, _, err := store.Load[store.Binding](tx, k)
		if err != nil {
			return err
		}
		if b.Kind == store.Conversion && !b.Detached {
			attached = append(attached, k)
		}
	}
	if len(attached) == 0 {
		return nil
	}
	hooks, err := LoadHooks(tx, module)
	if err != nil {
		return err
	}
	a := attacher{tx: tx, kept: map[string]bool{}}
	for _, h := range hooks {
		if err := a.conversions(module, h, h.Config.BindingIDs()); err != nil {
			return err
		}
	}
	for _, k := range attached {
		if !a.kept[string(k)] {
			tx.Delete(k)
		}
	}
	return nil
}

// AttachConversion attaches the conversion binding s of a recorded hook before the run of the hook's module.
func AttachConversion(tx *store.Tx, s graph.Subject, config hook.ConversionBinding) error {
	a := attacher{tx: tx, kept: map[string]bool{}}
	_, _, err := a.saveBinding(s, store.Conversion, config, "")
	return err
}

type attacher struct {
	tx    *store.Tx
	start uint64
	kept  map[string]bool // keys of the bindings that the hooks still have
	items []graph.Item
}

func (a *attacher) hook(module string, h Hook) error {
	ids := h.Config.BindingIDs()
	groups := map[string]int{} // index of the item by group and queue
	for i, b := range h.Config.Kubernetes {
		subject := graph.Subject{Module: module, Hook: h.File.Name, Binding: ids.Kubernetes[i]}
		synced, changed, err := a.saveBinding(subject, store.Kubernetes, b, b.Queue)
		if err != nil {
			return err
		}
		if synced {
			continue
		}
		// A binding with "executeHookOnSynchronization: false" cannot represent other bindings: its Synchronization
		// does not run the hook, and only waits until the snapshot is complete.
		if b.Group != "" && b.ExecuteOnSynchronization {
			group := b.Group + " " + b.Queue
			if at, ok := groups[group]; ok {
				item := &a.items[at]
				item.Wait, item.Changed = item.Wait || b.WaitForSynchronization, item.Changed || changed
				continue
			}
			groups[group] = len(a.items)
		}
		a.items = append(a.items, graph.Item{
			Subject: subject, Queue: b.Queue, Wait: b.WaitForSynchronization, AllowFailure: b.AllowFailure, Changed: changed,
		})
	}
	for i, b := range h.Config.Schedule {
		subject := graph.Subject{Module: module, Hook: h.File.Name, Binding: ids.Schedule[i]}
		if _, _, err := a.saveBinding(subject, store.Schedule, b, b.Queue); err != nil {
			return err
		}
	}
	return a.asked(module, h, ids)
}

// asked attaches the webhook bindings of h.
func (a *attacher) asked(module string, h Hook, ids hook.BindingIDs) error {
	var errs []error
	for i, b := range h.Config.Validating {
		errs = append(errs, a.saveAsked(module, h, ids.Validating[i], store.Validating, b))
	}
	for i, b := range h.Config.Mutating {
		errs = append(errs, a.saveAsked(module, h, ids.Mutating[i], store.Mutating, b))
	}
	return errors.Join(append(errs, a.conversions(module, h, ids))...)
}

// conversions attaches the conversion bindings of h.
func (a *attacher) conversions(module string, h Hook, ids hook.BindingIDs) error {
	var errs []error
	for i, b := range h.Config.Conversion {
		errs = append(errs, a.saveAsked(module, h, ids.Conversion[i], store.Conversion, b))
	}
	return errors.Join(errs...)
}

// saveAsked attaches a webhook binding of h. The hook runs at once when the API server sends a request, so the binding
// has no queue.
func (a *attacher) saveAsked(module string, h Hook, id string, kind store.BindingKind, config any) error {
	_, _, err := a.saveBinding(graph.Subject{Module: module, Hook: h.File.Name, Binding: id}, kind, config, "")
	return err
}

// saveBinding stores config in the record of the binding s. The result synced reports whether the binding has already
// been synchronized in this start with the same configuration. The result changed reports whether the binding is new,
// or its configuration or the code of its hook has changed.
func (a *attacher) saveBinding(s graph.Subject, kind store.BindingKind, config any, queue string) (synced, changed bool, err error) {
	key := store.BindingKey(s.Module, s.Hook, s.Binding)
	a.kept[string(key)] = true
	text, err := json.Marshal(config)
	if err != nil {
		return false, false, err
	}
	old, ok, err := store.Load[store.Binding](a.tx, key)
	if err != nil {
		return false, false, err
	}
	next := store.Binding{Kind: kind, Config: text, Queue: queue, AttachedIn: a.tx.Epoch(), Baseline: a.tx.NextID(), AttachedInStart: a.start}
	next.FormChanged, next.FilterChanged, next.KindChanged = old.FormChanged, old.FilterChanged, old.KindChanged
	same := ok && old.Kind == kind && string(old.Config) == string(text)
	if c, watches := config.(hook.KubernetesBinding); watches && !same && old.Kind == kind {
		if err := noteChanges(&next, old, c); err != nil {
			return false, false, err
		}
	}
	if same {
		next.SyncedIn, next.AttachedIn, next.Baseline = old.SyncedIn, old.AttachedIn, old.Baseline
		if old.Detached {
			next.SyncedIn = 0 // events may have been missed while the binding was detached
		}
	}
	if kind == store.Schedule && (!same || old.Detached) {
		// The binding was not attached until now, so the hook does not run for earlier ticks of the schedule.
		if err := store.Save(a.tx, store.TickKey(s), a.tx.Now()); err != nil {
			return false, false, err
		}
	}
	return next.SyncedIn == a.start, !same || old.AttachedInStart == store.FormerCode, store.Save(a.tx, key, next)
}

// Synchronized is part of the transition that ends the Synchronization of the binding s. The argument shown has the
// versions of the objects that the Synchronization delivered to the hook, by binding. Synchronized marks s, and the
// other bindings of its group, as synchronized. If a binding of the hook was attached in this epoch, Synchronized
// returns a Withdrawal of the waiting events that the Synchronization covers. If no binding was, or if shown is empty,
// it returns nil.
func Synchronized(tx *store.Tx, s graph.Subject, shown map[string]map[string]Version) (*workflow.Withdrawal, error) {
	bindings, err := markSynchronized(tx, s)
	if err != nil || len(shown) == 0 {
		return nil, err
	}
	attached := false
	for _, b := range bindings {
		attached = attached || b.AttachedIn == tx.Epoch()
	}
	if !attached {
		return nil, nil
	}
	queue := bindings[s.Binding].Queue
	ends, err := deletions(tx, queue, s)
	if err != nil {
		return nil, err
	}
	d := synchronization{epoch: tx.Epoch(), bindings: bindings, shown: shown, deletions: ends}
	return &workflow.Withdrawal{
		Queue: queue, Subject: s, Why: "the Synchronization of its binding delivered the object", Match: d.covers,
	}, nil
}

// markSynchronized marks the binding s, and all bindings with the same group and queue, as synchronized in the start
// that attached them. It returns all bindings of the hook by ID, as they were before. If the binding s does not exist,
// it returns nil.
func markSynchronized(tx *store.Tx, s graph.Subject) (map[string]store.Binding, error) {
	start, err := store.LoadStartup(tx)
	if err != nil {
		return nil, err
	}
	bindings, err := store.LoadBindings(tx, s.Module, s.Hook)
	own, ok := bindings[s.Binding]
	if err != nil || !ok {
		return nil, err
	}
	group, err := groupOf(own)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(bindings)) {
		b := bindings[id]
		its, err := groupOf(b)
		if err != nil {
			return nil, err
		}
		if id != s.Binding && (group == "" || its != group || b.Queue != own.Queue) {
			continue
		}
		// If an earlier start attached the binding, or the code of the hook has changed since then, SyncedIn does not
		// name the current start. So the Synchronization runs again.
		b.SyncedIn = cmp.Or(b.AttachedInStart, start.StartRun)
		if err := store.Save(tx, store.BindingKey(s.Module, s.Hook, id), b); err != nil {
			return nil, err
		}
	}
	return bindings, nil
}

// A synchronization describes the objects that one Synchronization delivered to a hook.
type synchronization struct {
	epoch     uint64
	bindings  map[string]store.Binding      // all bindings of the hook, by ID
	shown     map[string]map[string]Version // delivered objects by binding, then by namespace and name
	deletions map[objectPlace]store.ID      // pending Deleted events
}

// covers reports whether the pending event need not be delivered, because the Synchronization delivered the object in
// the same version or a later one. Many hooks do nothing on Synchronization. So two kinds of events are not covered:
// events that were pending before a restart, and differences from the objects that an earlier process delivered. Also
// not covered are Deleted events, later events of a deleted object, and events of objects that the Synchronization
// did not deliver.
func (d synchronization) covers(pending *store.Task) bool {
	o := pending.Object
	if o.Event == hook.Deleted {
		return false
	}
	if b := d.bindings[pending.Subject.Binding]; !b.After(pending.ID, d.epoch) {
		return false
	}
	if end, ok := d.deletions[placeOf(pending)]; ok && end.Before(pending.ID) {
		return false
	}
	version, ok := d.shown[pending.Subject.Binding][o.Namespace+"/"+o.Name]
	return ok && version.UID == o.UID && !kube.After(o.ResourceVersion, version.ResourceVersion)
}

// An objectPlace identifies an object in the snapshot of a binding by its name. An object that is deleted and created
// again has the same objectPlace.
type objectPlace struct{ binding, namespace, name string }

func placeOf(t *store.Task) objectPlace {
	return objectPlace{t.Subject.Binding, t.Object.Namespace, t.Object.Name}
}

// deletions returns the ID of the first pending Deleted event of each object, among the events of hook s in queue.
// Later events of the object must also be delivered, even if the Synchronization included the object. Otherwise the
// deletion would be the last event that the hook gets for an object that was created again.
func deletions(tx *store.Tx, queue string, s graph.Subject) (map[objectPlace]store.ID, error) {
	first := map[objectPlace]store.ID{}
	for t, err := range store.EventsOf(tx, queue, s) {
		if err != nil {
			return nil, err
		}
		if t.Object.Event != hook.Deleted {
			continue
		}
		if other, ok := first[placeOf(t)]; !ok || t.ID.Before(other) {
			first[placeOf(t)] = t.ID
		}
	}
	return first, nil
}

// groupOf returns the group of b. The Synchronization of one binding represents all bindings with the same group and
// queue. If b is not a kubernetes binding, or its Synchronization does not run its hook, groupOf returns "".
func groupOf(b store.Binding) (string, error) {
	if b.Kind != store.Kubernetes {
		return "", nil
	}
	var c hook.KubernetesBinding
	err := json.Unmarshal(b.Config, &c)
	if !c.ExecuteOnSynchronization {
		return "", err
	}
	return c.Group, err
}

// Detach records that the bindings of module are detached, so that they get no more events. Their snapshots can still
// be read.
func Detach(tx *store.Tx, module string) error {
	for k := range tx.Range(store.BindingsOf(module)) {
		b, _, err := store.Load[store.Binding](tx, k)
		if err != nil {
			return err
		}
		b.Detached = true
		if err := store.Save(tx, k, b); err != nil {
			return err
		}
	}
	return nil
}

// savedByHooksOf returns a function that reports whether a hook of module has saved a values operation. The author of
// an operation is the name of a hook. A global hook in a directory with the name of the module has a name of the same
// form. So the function returns false if the store has a record of a global hook with this name.
func savedByHooksOf(tx *store.Tx, module string) func(values.Saved) bool {
	return func(s values.Saved) bool {
		return strings.HasPrefix(s.Hook, sections.Author(module, "")+"/") && tx.Get(store.HookKey("", s.Hook)) == nil
	}
}

// Forget deletes the records of the hooks of module: bindings, configurations, patches of values, metrics, ticks and
// rate limits. It also deletes the record of module's release. The argument module can be the name of a release or
// directory that no module can have. In this case, Forget keeps the patches of the section with the corresponding key,
// because this section may be the global one or belong to another module.
func Forget(tx *store.Tx, module string) error {
	for _, prefix := range []store.Key{
		store.BindingsOf(module), store.HooksOf(module), store.At(store.Ticks).Str(module), store.At(store.Buckets).Str(module),
	} {
		for k := range tx.Range(prefix) {
			tx.Delete(k)
		}
	}
	if values.CheckName(module) == nil {
		tx.Delete(store.SavedKey(sections.Of(module)))
	}
	if err := sections.DropPatches(tx, values.Global, savedByHooksOf(tx, module)); err != nil {
		return err
	}
	tx.Delete(store.ReleaseKey(module))
	return hookmetrics.Forget(tx, func(s graph.Subject) bool { return s.Module == module })
}
