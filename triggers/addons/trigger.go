package addons

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/internal/api"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
	"addon-operator/internal/retry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// configurationFilter selects the fields of a configuration that a Trigger reads.
const configurationFilter = `{generation: .metadata.generation, deleted: .metadata.deletionTimestamp, created: .metadata.creationTimestamp,
	finalizers: .metadata.finalizers, phase: .status.phase, observed: .status.observedGeneration,
	modules: ((.metadata.annotations // {})["` + api.ModulesAnnotation + `"] == "true")}`

// longestSleep is the maximum time between two readings of the clock. A timer does not notice that the
// clock was set, or that the machine slept.
const longestSleep = time.Minute

const (
	// repairPause is the minimum time between two repairs of the status or finalizer of a
	// configuration.
	repairPause = 5 * time.Second
	// restoreWithin is the maximum time that other configurations wait after the loss of the store, until the
	// configurations that were Ready have been processed.
	restoreWithin = time.Minute
)

// A Trigger raises events for addons configurations: when one is new, changed or deleted, when
// somebody has changed its status or finalizers, when another attempt is due, and when the modules of
// the image have changed. It watches each kind of configuration as long as the API server serves the
// kind.
type Trigger struct {
	// Image returns a checksum of the modules of the image whose names the addons of a
	// configuration must not have, or "" if there are none. marked is true if the configuration has
	// the annotation for modules. Image must be set before Run; nil means that the image has no
	// modules.
	Image func(id api.Identity, marked bool) (string, error)
	// Interrupt is called with the state of a configuration before its event is raised, so that a
	// running fetch for an older state is canceled. Interrupt must not block. Interrupt must be set
	// before Run, and can be nil.
	Interrupt func(id api.Identity, uid string, generation int64, deleted bool)

	db      *store.DB
	engine  workflow.Raiser
	watches *kube.Watches
	delays  retry.Delays
	wake    chan struct{}

	mu       sync.Mutex
	raised   map[api.Identity]sighting  // state in the last event of each configuration; guarded by mu
	repaired map[api.Identity]time.Time // time of the last repair of a status or a finalizer; guarded by mu
	due      map[api.Identity]time.Time // when each configuration must be processed again; guarded by mu
	// After the loss of the store, restoring has the configurations that were Ready and have not
	// been processed yet. The field later has the configurations that wait until restoring is
	// empty, but at most until the time in the field until.
	restoring map[api.Identity]bool // guarded by mu
	later     []configuration       // guarded by mu
	until     time.Time             // guarded by mu

	// compared has the checksums of the modules with which all configurations were last compared; nil at the start. The
	// checksum under true is for configurations with the annotation for modules, the one under false for all others.
	// Only the goroutine of Run uses compared.
	compared map[bool]string
}

// A sighting is the part of a configuration's state that the trigger remembers when it raises an event.
type sighting struct {
	uid        string
	generation int64
	deleted    bool
	modules    bool
}

// A configuration has the fields of an addons configuration that the filter of the watch selects.
type configuration struct {
	id api.Identity
	sighting
	created         time.Time
	phase           store.Phase
	observed        int64
	lacksFinalizers bool
}

// isReady reports whether the status of c says that the current generation is Ready.
func (c *configuration) isReady() bool {
	return c.phase == store.PhaseReady && c.observed == c.generation && !c.deleted
}

// planOf returns the time at which the next attempt of a failed configuration with the record c is due; zero means
// never. planOf uses the delays of this process, and corrects a time that was computed with a wrong clock.
func (a *Trigger) planOf(c store.Configuration, now time.Time) time.Time {
	if c.Phase != store.PhaseFailed {
		return time.Time{}
	}
	return a.delays.Replan(now, c.Processed, c.Retry, c.Attempts)
}

// New returns a Trigger.
func New(db *store.DB, engine workflow.Raiser, client *kube.Client, kinds *kube.Kinds, delays retry.Delays, observer kube.Observer) *Trigger {
	a := &Trigger{
		db: db, engine: engine, delays: delays, wake: make(chan struct{}, 1),
		raised: map[api.Identity]sighting{}, repaired: map[api.Identity]time.Time{}, due: map[api.Identity]time.Time{},
		restoring: map[api.Identity]bool{},
	}
	a.watches = kube.NewWatches(client, kinds, a, observer)
	return a
}

// Settled is called when a round of a configuration has ended, was given up because a person has skipped one of its
// steps, or has not begun because the next attempt is not due yet. due is the time of the next attempt; zero means
// never. Settled does not block.
func (a *Trigger) Settled(id api.Identity, due time.Time) {
	a.mu.Lock()
	if delete(a.due, id); !due.IsZero() {
		a.due[id] = due
	}
	delete(a.restoring, id)
	a.mu.Unlock()
	a.signal()
}

// ModulesChanged makes the trigger compare the modules of the image again, because the directories
// of modules may have changed. ModulesChanged does not block.
func (a *Trigger) ModulesChanged() { a.signal() }

func (a *Trigger) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run watches the addons configurations and raises their events until ctx is done, or until an event cannot be raised.
func (a *Trigger) Run(ctx context.Context) error {
	filter, err := jq.CompileOwn(configurationFilter)
	if err != nil {
		return fmt.Errorf("watch addons configurations: %w", err)
	}
	if err := a.planAll(ctx); err != nil {
		return fmt.Errorf("read addons configurations: %w", err)
	}
	for _, kind := range []string{api.ClusterKind, api.NamespacedKind} {
		monitor, err := a.watches.Open(kube.Spec{
			Owner: "addons", Filter: filter,
			Selection: kube.Selection{APIVersion: api.Group + "/" + api.Version, Kind: kind},
		})
		if err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
		defer monitor.Close()
	}
	watching, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer stop()
	watches.Go(func() { a.watches.Run(watching) })
	return a.tick(ctx)
}

// planAll plans the attempts of all failed configurations, in transactions of bounded size.
func (a *Trigger) planAll(ctx context.Context) error {
	var all []api.Identity
	if err := a.db.View(func(tx *store.Tx) error {
		all = nil
		for k := range tx.Range(store.At(store.Configurations)) {
			namespace, name, err := store.ParseConfigurationKey(k)
			if err != nil {
				return err
			}
			all = append(all, api.Identity{Namespace: namespace, Name: name})
		}
		return nil
	}); err != nil {
		return err
	}
	for len(all) > 0 {
		n := 0
		planned := map[api.Identity]time.Time{}
		if err := a.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			n = 0
			clear(planned)
			for n < len(all) && !tx.Spent() {
				due, err := a.planOne(tx, all[n])
				if err != nil {
					return err
				}
				if !due.IsZero() {
					planned[all[n]] = due
				}
				n++
			}
			return nil
		}); err != nil {
			return err
		}
		a.mu.Lock()
		maps.Copy(a.due, planned)
		a.mu.Unlock()
		all = all[n:]
	}
	return nil
}

// planAt sets the time at which a configuration is due, unless the configuration is due earlier
// already.
func (a *Trigger) planAt(id api.Identity, due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.due[id]; !ok || due.Before(at) {
		a.due[id] = due
	}
}

// planOne plans the next attempt of a configuration and returns its time; zero means never.
func (a *Trigger) planOne(tx *store.Tx, id api.Identity) (due time.Time, err error) {
	c, ok, err := recordOf(tx, id)
	if err != nil || !ok {
		return time.Time{}, err
	}
	due = a.planOf(c, tx.Now())
	if due.Equal(c.Retry) || due.IsZero() {
		return due, nil
	}
	c.Retry = due
	return due, store.Save(tx, store.ConfigurationKey(id.Namespace, id.Name), c)
}

// tick raises the due events until ctx is done. If an event cannot be raised because the engine has to repair a record
// first, tick tries again after repairPause.
func (a *Trigger) tick(ctx context.Context) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		err := a.raiseDue(ctx)
		if err == nil {
			err = a.compareModules(ctx)
		}
		isRepaired := workflow.Repairable(err)
		if err != nil && !isRepaired && ctx.Err() == nil {
			return fmt.Errorf("raise events of addons configurations: %w", err)
		}
		alarm.Stop()
		if isRepaired {
			alarm.Reset(repairPause)
		} else if next, ok := a.next(); ok {
			alarm.Reset(min(next.Sub(a.db.Now()), longestSleep))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		case <-alarm.C:
		}
	}
}

// next returns the time of the next due event, if there is one.
func (a *Trigger) next() (next time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, due := range a.due {
		if !ok || due.Before(next) {
			next, ok = due, true
		}
	}
	if len(a.later) > 0 && (!ok || a.until.Before(next)) {
		next, ok = a.until, true
	}
	return next, ok
}

// raiseDue raises the due events, and the events of configurations that waited for other configurations. After an
// error, the events that were not raised are still due.
func (a *Trigger) raiseDue(ctx context.Context) error {
	now := a.db.Now()
	due := map[api.Identity]time.Time{}
	a.mu.Lock()
	for id, at := range a.due {
		// A time further in the future than the longest delay was computed with a wrong clock.
		if !now.Before(at) || at.Sub(now) > max(a.delays.Upper(), repairPause) {
			due[id] = at
		}
	}
	a.mu.Unlock()
	byName := func(x, y api.Identity) int { return strings.Compare(x.String(), y.String()) }
	for _, id := range slices.SortedFunc(maps.Keys(due), byName) {
		at := due[id]
		if err := a.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			next, err := a.planOne(tx, id)
			if err != nil {
				return err
			}
			tx.OnCommit(func() {
				a.mu.Lock()
				if a.due[id].Equal(at) {
					delete(a.due, id)
				}
				a.mu.Unlock()
				if next.After(now) { // the next attempt is not due yet: only a repair of the status was due, or the clock was wrong
					a.planAt(id, next)
				}
			})
			if at.After(now) {
				return nil
			}
			return a.engine.Raise(tx, eventOf(id, addons.OnDue, "another attempt is due"))
		}); err != nil {
			return err
		}
	}
	var waited []configuration
	a.mu.Lock()
	if len(a.restoring) == 0 || !now.Before(a.until) {
		waited, a.later = a.later, nil
	}
	a.mu.Unlock()
	err := a.raiseChanged(ctx, waited)
	if err != nil {
		a.mu.Lock()
		a.later = append(waited, a.later...)
		a.mu.Unlock()
	}
	return err
}

func eventOf(id api.Identity, on graph.Trigger, why string) workflow.Event {
	return workflow.Event{
		On: on, Subject: graph.Subject{Configuration: id.String()},
		Cause: store.Cause{Object: id.Kind() + " " + id.String(), Detail: why},
	}
}

// Stored returns no version, so that each watch begins with a list of the configurations.
func (a *Trigger) Stored(context.Context, kube.View) (string, error) { return "", nil }

// Behind returns false, because each view has one owner.
func (a *Trigger) Behind(context.Context, kube.View, []string) (bool, error) { return false, nil }

// Left is not called, because all namespaces are watched.
func (a *Trigger) Left(context.Context, kube.View, []string) error { return nil }

// Listed compares all configurations of a kind with the store, and raises an event for each that
// must be processed.
func (a *Trigger) Listed(ctx context.Context, list kube.List) error {
	all := make([]configuration, 0, len(list.Objects))
	exists := map[api.Identity]bool{}
	for _, object := range list.Objects {
		c, err := readConfiguration(object)
		if err != nil {
			return err
		}
		all = append(all, c)
		exists[c.id] = true
	}
	slices.SortFunc(all, func(x, y configuration) int {
		return cmp.Or(x.created.Compare(y.created), strings.Compare(x.id.String(), y.id.String()))
	})
	gone, err := a.gone(list.View.Kind, exists)
	if err != nil {
		return err
	}
	for _, id := range gone {
		if err := a.vanished(ctx, id); err != nil {
			return err
		}
	}
	if all, err = a.restore(all); err != nil {
		return err
	}
	return a.raiseChanged(ctx, all)
}

// gone returns the configurations of a kind that have a record in the store but no longer exist.
func (a *Trigger) gone(kind string, exists map[api.Identity]bool) (gone []api.Identity, err error) {
	err = a.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Configurations)) {
			namespace, name, err := store.ParseConfigurationKey(k)
			if err != nil {
				return err
			}
			if id := (api.Identity{Namespace: namespace, Name: name}); id.Kind() == kind && !exists[id] {
				gone = append(gone, id)
			}
		}
		return nil
	})
	return gone, err
}

// restore returns those of the given configurations that must be processed now. After the loss of
// the store, the configurations that were Ready are processed before the other configurations, so
// that addons keep their owners.
func (a *Trigger) restore(all []configuration) ([]configuration, error) {
	var ready, others, known []configuration
	if err := a.db.View(func(tx *store.Tx) error {
		ready, others, known = nil, nil, nil
		for _, c := range all {
			record, ok, err := recordOf(tx, c.id)
			switch {
			case err != nil:
				return err
			case c.isReady() && record.Registered.IsZero() && (!ok || record.Phase == store.PhasePending):
				ready = append(ready, c)
			case !ok && !c.deleted:
				others = append(others, c)
			default:
				known = append(known, c)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if len(ready) == 0 || len(others) == 0 {
		return all, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range ready {
		a.restoring[c.id] = true
	}
	a.later, a.until = append(a.later, others...), a.db.Now().Add(restoreWithin)
	return append(ready, known...), nil
}

// Changed raises events for those changed configurations of a batch that must be processed.
func (a *Trigger) Changed(ctx context.Context, batch kube.Batch) error {
	var all []configuration
	for _, change := range batch.Changes {
		c, err := readConfiguration(change.Object)
		if err != nil {
			return err
		}
		if change.Type == kube.Deleted {
			if err := a.vanished(ctx, c.id); err != nil {
				return err
			}
			continue
		}
		all = append(all, c)
	}
	return a.raiseChanged(ctx, all)
}

// readConfiguration returns the fields of a configuration that the filter has selected.
func readConfiguration(object *kube.Object) (configuration, error) {
	var read struct {
		Generation int64       `json:"generation"`
		Deleted    *time.Time  `json:"deleted"`
		Created    time.Time   `json:"created"`
		Finalizers []string    `json:"finalizers"`
		Phase      store.Phase `json:"phase"`
		Observed   int64       `json:"observed"`
		Modules    bool        `json:"modules"`
	}
	c := configuration{id: api.Identity{Namespace: object.Namespace, Name: object.Name}}
	if object.FilterResult != nil {
		if err := json.Unmarshal(object.FilterResult, &read); err != nil {
			return c, fmt.Errorf("read %s %s: %w", c.id.Kind(), c.id, err)
		}
	}
	c.sighting = sighting{uid: object.UID, generation: read.Generation, deleted: read.Deleted != nil, modules: read.Modules}
	c.created, c.phase, c.observed = read.Created, read.Phase, read.Observed
	c.lacksFinalizers = !slices.Contains(read.Finalizers, api.Finalizer)
	return c, nil
}

// vanished raises an event for a configuration that no longer exists, if it has a record in the
// store. The record need not be readable.
func (a *Trigger) vanished(ctx context.Context, id api.Identity) error {
	if a.Interrupt != nil {
		a.Interrupt(id, "", 0, true)
	}
	a.mu.Lock()
	delete(a.raised, id)
	delete(a.repaired, id)
	delete(a.restoring, id)
	a.later = slices.DeleteFunc(a.later, func(c configuration) bool { return c.id == id })
	a.mu.Unlock()
	return a.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		if tx.Get(store.ConfigurationKey(id.Namespace, id.Name)) == nil {
			return nil
		}
		return a.engine.Raise(tx, eventOf(id, addons.OnConfiguration, "it does not exist any more"))
	})
}

// raiseChanged raises events for those of the given configurations that must be processed, in transactions of
// bounded size.
func (a *Trigger) raiseChanged(ctx context.Context, all []configuration) error {
	if a.Interrupt != nil {
		for _, c := range all {
			a.Interrupt(c.id, c.uid, c.generation, c.deleted)
		}
	}
	for len(all) > 0 {
		n := 0
		raised := map[api.Identity]sighting{}
		if err := a.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			n = 0
			clear(raised)
			for n < len(all) && !tx.Spent() {
				c := all[n]
				n++
				why, err := a.judge(tx, c)
				if err != nil {
					return err
				}
				if why == "" {
					continue
				}
				raised[c.id] = c.sighting
				if err := a.engine.Raise(tx, eventOf(c.id, addons.OnConfiguration, why)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		a.mu.Lock()
		maps.Copy(a.raised, raised)
		a.mu.Unlock()
		all = all[n:]
	}
	return nil
}

// recordOf returns the record of a configuration, and whether the store has one. A record that cannot be read is
// treated as missing: then the configuration is new, and the steps of its event replace the record.
func recordOf(tx *store.Tx, id api.Identity) (store.Configuration, bool, error) {
	c, ok, err := store.Load[store.Configuration](tx, store.ConfigurationKey(id.Namespace, id.Name))
	if errors.As(err, new(*store.RecordError)) {
		return store.Configuration{}, false, nil
	}
	return c, ok, err
}

// judge returns why c must be processed; empty if nothing must be done. Writes of the status by the operator itself are
// no reason: they do not change the generation, and they match the store.
func (a *Trigger) judge(tx *store.Tx, c configuration) (why string, err error) {
	record, known, err := recordOf(tx, c.id)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	last := a.raised[c.id]
	a.mu.Unlock()
	if last != c.sighting {
		if why := c.changes(known, record, last); why != "" {
			return why, nil
		}
	}
	if !known || !c.mustHeal(record) {
		return "", nil
	}
	_, busy, err := store.Head(tx, graph.Subject{Configuration: c.id.String()}.Queue())
	if err != nil {
		return "", err
	}
	if busy { // the engine is about to write the status, or somebody else has changed the status just after the engine wrote it
		a.checkAt(tx, c.id, tx.Now().Add(repairPause))
		return "", nil
	}
	return a.repair(tx, c.id), nil
}

// changes compares c with record, the result of its last round, and with the state last in its last event. The result
// describes the change that a user has made since then, or says that the round has not ended; it is empty if neither
// applies. The record is not enough to find a change of the annotation: the task of the last event may have read the
// annotation without having recorded it yet.
func (c *configuration) changes(known bool, record store.Configuration, last sighting) (why string) {
	switch {
	case c.deleted:
		return "it is being deleted"
	case !known || record.UID != c.uid:
		return "it is new"
	case record.Generation != c.generation:
		return fmt.Sprintf("generation %d", c.generation)
	case record.Phase == store.PhasePending:
		return "its last round has not ended"
	case record.Modules != c.modules || last.uid == c.uid && last.modules != c.modules:
		return "annotation " + api.ModulesAnnotation
	default:
		return ""
	}
}

// mustHeal reports whether the status or the finalizers of c differ from those that the operator has written for the
// generation of c.
func (c *configuration) mustHeal(record store.Configuration) bool {
	if c.deleted || record.Phase == store.PhasePending || record.Generation != c.generation {
		return false
	}
	return c.lacksFinalizers || c.phase != record.Phase || c.observed != record.Generation
}

// checkAt makes the configuration due at the given time, once tx is committed.
func (a *Trigger) checkAt(tx *store.Tx, id api.Identity, at time.Time) {
	tx.OnCommit(func() {
		a.planAt(id, at)
		a.signal()
	})
}

// repair returns why the status or the finalizer must be repaired. If the last repair was less than
// repairPause ago, repair returns an empty string, and makes the configuration due later.
func (a *Trigger) repair(tx *store.Tx, id api.Identity) (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := tx.Now()
	if next := a.repaired[id].Add(repairPause); now.Before(next) {
		a.checkAt(tx, id, next)
		return ""
	}
	tx.OnCommit(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.repaired[id] = now
	})
	return "its status or its finalizer is not what the operator has written"
}
