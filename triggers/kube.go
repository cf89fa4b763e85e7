package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A Kube raises events for changes of the objects that attached kubernetes bindings watch, and
// provides the snapshots of the bindings. The cursors in the store record which objects were
// delivered. A cursor changes in the transaction that adds the events.
type Kube struct {
	// Damaged is called when an unreadable record was moved to the table of damaged records. Damaged can be nil.
	Damaged func(store.Damaged)

	db       *store.DB
	engine   workflow.Raiser
	log      zerolog.Logger
	watches  *kube.Watches
	receiver *receiver
	earlier  *earlierViews

	changed <-chan struct{}      // receives a value when bindings may have changed
	asked   chan chan<- struct{} // each call of Ready sends a channel, which is closed when Run follows all bindings
	bound   bindingReader        // for readBindings

	mu      sync.Mutex
	follows map[graph.Subject]*followed // the followed bindings; guarded by mu

	// attached has the kubernetes bindings that were in the store when it was last read, including detached ones. Each
	// key is the [graph.Subject.String] of a binding.
	attached atomic.Pointer[map[string]graph.Subject]
}

// followed is a binding whose objects a monitor watches.
type followed struct {
	config  string
	monitor *kube.Monitor
	err     error // the reason why there is no monitor
}

// NewKube returns a Kube for the cluster of client. The Kube raises events once Run is called.
func NewKube(db *store.DB, engine workflow.Raiser, client *kube.Client, kinds *kube.Kinds, observer kube.Observer, log zerolog.Logger) *Kube {
	k := &Kube{
		db: db, engine: engine, log: log, changed: store.Changes(db, store.At(store.Bindings)), asked: make(chan chan<- struct{}),
		earlier: &earlierViews{db: db}, follows: map[graph.Subject]*followed{},
	}
	k.receiver = &receiver{db: db, engine: engine, isFollowed: k.isFollowed, attached: k.attachedAs, reduced: k.reduced, damaged: k.damaged}
	k.watches = kube.NewWatches(client, kinds, k.receiver, observer)
	return k
}

// reduced logs that the payload of an event was too large, so that a part of the payload was left out.
func (k *Kube) reduced(to graph.Subject, o *kube.Object, size int) {
	k.log.Error().Str("hook", to.String()).Str("object", o.Namespace+"/"+o.Name).Int("bytes", size).
		Msg("event too large: left out the content of the object, and, if the event is still too large, the filter result; set keepFullObjectsInMemory: false, and select less with the jqFilter")
}

// damaged reports a record that could not be read.
func (k *Kube) damaged(d store.Damaged) {
	if k.Damaged != nil {
		k.Damaged(d)
	}
}

// Run watches the objects of the attached bindings, and raises events for their changes, until ctx
// is done.
func (k *Kube) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { k.watches.Run(ctx); return nil })
	group.Go(func() error { return k.follow(ctx, group) })
	return group.Wait()
}

// follow makes the monitors match the bindings in the store, at first and after each change, until ctx is done.
// Goroutines of the argument group delete the cursors that no binding uses any more.
func (k *Kube) follow(ctx context.Context, group *errgroup.Group) error {
	var caughtUp chan<- struct{}
	for first, more := true, true; more; first = false {
		var closed []closedView
		err := k.receiver.withoutDamage(ctx, func() (err error) { closed, err = k.readBindings(); return err })
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("read kubernetes bindings: %w", err)
		}
		if caughtUp != nil && err == nil {
			close(caughtUp)
		}
		if first {
			group.Go(func() error { k.sweep(ctx); return nil })
		}
		if len(closed) > 0 {
			group.Go(func() error { return k.forget(ctx, closed) })
		}
		caughtUp, more = k.awaitChange(ctx)
	}
	return nil
}

// awaitChange returns when bindings may have changed. Until then, it answers the calls of Ready. If a call of Ready
// waits for the change, caughtUp is its channel. When ctx is done, the result more is false.
func (k *Kube) awaitChange(ctx context.Context) (caughtUp chan<- struct{}, more bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-k.changed:
			return nil, true
		case caughtUp := <-k.asked:
			select {
			case <-k.changed:
				return caughtUp, true
			default:
				close(caughtUp)
			}
		}
	}
}

// closedView is a view that a binding has followed until its monitor was closed.
type closedView struct {
	view  kube.View
	owner string
}

// forget deletes the cursors of the closed views that no binding uses any more. If the cursor of a closed view stays,
// forget removes the owner of the closed view from the cursor, unless the owner follows the view again. Otherwise the
// cursor would treat an owner that was attached again in this epoch, with another selection, as an owner that has not
// joined the view yet.
func (k *Kube) forget(ctx context.Context, closed []closedView) error {
	for _, c := range closed {
		inUse := func() (bool, error) { return k.receiver.inUse(c.view, []string{c.owner}) }
		err := k.receiver.forget(ctx, c.view, inUse)
		if err == nil {
			subject := SubjectOf(c.owner)
			left := func(binding string) bool { return binding == subject.String() && !k.isFollowedBy(subject, c.view) }
			err = k.receiver.withoutDamage(ctx, func() error { return unlist(ctx, k.db, cursorKey(c.view), left) })
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("forget the objects of closed kubernetes bindings: %w", err)
		}
	}
	return nil
}

// sweep deletes the cursors of earlier epochs that no binding uses any more, and removes bindings from cursors that
// they do not use. sweep first waits until the snapshots of all bindings are complete. It keeps the cursors of views
// that a binding is about to leave, because their remaining changes must still be delivered.
func (k *Kube) sweep(ctx context.Context) {
	k.mu.Lock()
	follows := maps.Clone(k.follows)
	k.mu.Unlock()
	for _, f := range follows {
		// If the monitor is closed because the binding has changed in the meantime, Wait returns an error as well.
		if f.monitor != nil && f.monitor.Wait(ctx) != nil && ctx.Err() != nil {
			return
		}
	}
	k.earlier.drop()
	if err := errors.Join(sweepOwners(ctx, k.db, k.isUnused), k.sweepUnseen(ctx)); err != nil && ctx.Err() == nil {
		k.log.Error().Err(err).Msg("cannot delete the unused cursors; the next start tries again")
	}
}

// isUnused reports whether it is certain that a binding does not use the view v, whose source has no kind. The argument
// text is the [graph.Subject.String] of the binding. If the binding is not followed, or has no views yet, for example
// because its kind is not served, isUnused returns false. A binding has a view before it becomes an owner of the view's
// cursor. So if a transaction has read that the binding is an owner, and then calls isUnused, the result takes into
// account the view with which the binding has become an owner.
func (k *Kube) isUnused(text string, v kube.View) bool {
	subject, attached := k.attachedAs(text)
	k.mu.Lock()
	f := k.follows[subject]
	k.mu.Unlock()
	if !attached || f == nil || f.monitor == nil {
		return false
	}
	used, known := f.monitor.Uses(v)
	return known && !used
}

// sweepUnseen deletes the cursors of views that no binding uses. If a binding has no view yet, for
// example because its kind is not served, it is unknown which cursors are unused, and none is
// deleted.
func (k *Kube) sweepUnseen(ctx context.Context) error {
	return k.receiver.sweep(ctx, func() (seen []kube.View, known bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, f := range k.follows {
			if f.monitor == nil {
				return nil, false
			}
			views := f.monitor.Views()
			if len(views) == 0 {
				return nil, false
			}
			seen = append(append(seen, views...), f.monitor.Parting()...)
		}
		return seen, true
	})
}

// readBindings starts and stops monitors, so that they match the bindings in the store.
// readBindings returns the views of the stopped monitors.
func (k *Kube) readBindings() (closed []closedView, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	attached := map[graph.Subject]*binding{}
	if err := k.db.View(func(tx *store.Tx) error {
		for b, err := range k.bound.all(tx) {
			if err != nil {
				return err
			}
			if b.Kind == store.Kubernetes {
				attached[b.subject] = b
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, subject := range inOrder(k.follows) {
		f := k.follows[subject]
		if b, ok := attached[subject]; ok && f.config == string(b.Config) {
			continue
		}
		if f.monitor != nil {
			for _, v := range f.monitor.Views() {
				closed = append(closed, closedView{v, owner(subject)})
			}
			f.monitor.Close()
		}
		delete(k.follows, subject)
	}
	texts := make(map[string]graph.Subject, len(attached))
	for subject := range attached {
		texts[subject.String()] = subject
	}
	k.attached.Store(&texts) // before the calls of k.open, because the first change from a monitor needs the owners of its cursor
	for _, subject := range inOrder(attached) {
		if k.follows[subject] == nil {
			k.follows[subject] = k.open(subject, attached[subject].Binding)
		}
	}
	return closed, nil
}

// attachedAs returns the subject of the kubernetes binding whose Subject.String is equal to text. It
// searches the bindings as last read from the store. The binding may be detached.
func (k *Kube) attachedAs(text string) (subject graph.Subject, attached bool) {
	if texts := k.attached.Load(); texts != nil {
		subject, attached = (*texts)[text]
	}
	return subject, attached
}

// open starts a monitor for a binding. If the monitor cannot be started, open logs the error, and the result has the
// error and no monitor.
func (k *Kube) open(subject graph.Subject, b store.Binding) *followed {
	f := &followed{config: string(b.Config)}
	if f.monitor, f.err = k.openMonitor(subject, b); f.err != nil {
		k.log.Error().Err(f.err).Str("hook", subject.String()).Msg("binding is not followed")
	}
	return f
}

func (k *Kube) openMonitor(subject graph.Subject, b store.Binding) (*kube.Monitor, error) {
	var c hook.KubernetesBinding
	if err := json.Unmarshal(b.Config, &c); err != nil {
		return nil, err
	}
	filter, err := jq.Compile(c.JqFilter)
	if err != nil {
		return nil, err
	}
	spec := kube.Spec{
		Owner: owner(subject), Selection: selection(c), Filter: filter, KeepFull: c.KeepFullObjects, Period: c.ResynchronizationPeriod.Duration,
	}
	if b.AttachedIn != k.db.Epoch() {
		// Events of the earlier process may be pending, even if the Synchronization has not succeeded yet. So the hook
		// needs the changes since that process: a Synchronization does not show that the object of a pending event was
		// deleted.
		spec.Resume = b.SyncedIn != 0
		spec.Delivered = func(v kube.View) bool { return k.receiver.knows(v, subject, b.AttachedIn) }
		spec.Earlier = func() []kube.View { return k.earlier.of(subject, b.AttachedIn) }
	}
	return k.watches.Open(spec)
}

func selection(c hook.KubernetesBinding) kube.Selection {
	s := kube.Selection{
		APIVersion: c.APIVersion, Kind: c.Kind, Names: c.NameSelector, Labels: c.LabelSelector,
		Namespaces: c.Namespaces.Names, NamespaceLabels: c.Namespaces.LabelSelector,
	}
	for _, f := range c.FieldSelector {
		s.Fields = append(s.Fields, kube.FieldMatch{Field: f.Field, Operator: f.Operator, Value: f.Value})
	}
	return s
}

// isFollowed reports whether a followed binding uses the view v.
func (k *Kube) isFollowed(v kube.View) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.follows {
		if f.monitor != nil && f.monitor.Follows(v) {
			return true
		}
	}
	return false
}

// isFollowedBy reports whether the binding s is followed and uses the view v.
func (k *Kube) isFollowedBy(s graph.Subject, v kube.View) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.follows[s]
	return f != nil && f.monitor != nil && f.monitor.Follows(v)
}

// Ready returns when the snapshots of all attached kubernetes bindings of the hook are complete, or when it is known
// that their kinds are not served. These bindings include all that were committed before the call. Ready waits while
// Run is not active, because Run follows the bindings. Ready returns an error if a binding cannot be followed, or if
// ctx ends first.
func (k *Kube) Ready(ctx context.Context, module, hookName string) error {
	if err := k.catchUp(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	waits := map[string]*followed{}
	for subject, f := range k.follows {
		if subject.Module == module && subject.Hook == hookName {
			waits[subject.Binding] = f
		}
	}
	k.mu.Unlock()
	var errs []error
	for binding, f := range waits {
		err := f.err
		if err == nil {
			err = f.monitor.Wait(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("binding %s: %w", binding, err))
		}
	}
	return errors.Join(errs...)
}

// catchUp returns when Run follows all bindings that were committed before the call.
func (k *Kube) catchUp(ctx context.Context) error {
	caughtUp := make(chan struct{})
	select {
	case k.asked <- caughtUp:
	case <-ctx.Done():
		return fmt.Errorf("the bindings of the hook are not followed yet: %w", ctx.Err())
	}
	select {
	case <-caughtUp:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the bindings of the hook are not followed yet: %w", ctx.Err())
	}
}

// Snapshot returns the objects in the snapshot of the binding s, sorted by namespace and name; nil
// if the binding is not followed.
func (k *Kube) Snapshot(s graph.Subject) []*kube.Object {
	k.mu.Lock()
	f := k.follows[s]
	k.mu.Unlock()
	if f == nil || f.monitor == nil {
		return nil
	}
	return f.monitor.Snapshot()
}

// IsComplete reports whether the binding s is followed, and its snapshot is complete or its kind is not served. It does
// not wait.
func (k *Kube) IsComplete(s graph.Subject) bool {
	k.mu.Lock()
	f := k.follows[s]
	k.mu.Unlock()
	return f != nil && f.monitor != nil && f.monitor.IsComplete()
}

// A FailingFilter is a binding whose jqFilter fails on some of its objects.
type FailingFilter struct {
	Subject graph.Subject
	Kind    string
	Objects []kube.Failure
}

// FailingFilters returns the bindings whose jqFilter currently fails.
func (k *Kube) FailingFilters() (failing []FailingFilter) {
	k.mu.Lock()
	monitors := map[graph.Subject]*kube.Monitor{}
	for subject, f := range k.follows {
		if f.monitor != nil {
			monitors[subject] = f.monitor
		}
	}
	k.mu.Unlock()
	for subject, m := range monitors {
		views, objects := m.Views(), m.Failures()
		if len(views) > 0 && len(objects) > 0 {
			failing = append(failing, FailingFilter{Subject: subject, Kind: views[0].Kind, Objects: objects})
		}
	}
	return failing
}

// owner returns the name of a binding for the watches. SubjectOf is the inverse of owner. No name
// of a module, hook or binding has a zero byte.
func owner(s graph.Subject) string { return s.Module + "\x00" + s.Hook + "\x00" + s.Binding }

// SubjectOf returns the binding with the given name, which the function owner has returned. The watches and their
// observer use such names.
func SubjectOf(owner string) graph.Subject {
	parts := strings.SplitN(owner, "\x00", 3)
	parts = append(parts, "", "")
	return graph.Subject{Module: parts[0], Hook: parts[1], Binding: parts[2]}
}
