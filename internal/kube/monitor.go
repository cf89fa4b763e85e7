package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// undiscoveredEvery is the interval between attempts to find a kind as long as the kinds of some API groups cannot be
// read. The kind may be in one of these groups.
const undiscoveredEvery = time.Minute

// undecidedWithin limits how long a monitor waits for the preferred version of a group. A monitor waits if the kinds of
// this version cannot be read, but another version of the group has the monitor's kind. The time is longer than most
// restarts of an extension API server, because the monitor stays with the version in which it begins. The time is
// limited, because an API server can be broken for days, and the objects of the other version can be followed.
const undecidedWithin = time.Minute

const namespaceKind = "Namespace"

// Monitor follows the objects of one selection with one filter, for one owner. It is safe for concurrent use.
type Monitor struct {
	watches *Watches
	spec    Spec
	plan    plan
	stop    func()
	wake    chan struct{} // has an element if follow must check the namespaces and the sources that are not served; capacity 1

	// Only the goroutine of run uses the fields below.
	earlier []Source // sources that the owner followed in earlier processes; nil after the first call of arrange
	version string   // version in which the owner has followed the kind; lookUp prefers this version; may be empty

	mu      sync.Mutex
	moved   chan struct{} // the method update closes and replaces it
	settled bool          // all sources are known; there are none if the kind is not served
	gone    bool          // a source was not served since the last call of lost
	closed  bool
	problem error // why the last lookup of the kind has failed; nil if it found the kind, or if the kind is not served
	places  map[Source]place
	known   map[Source]bool  // sources that leaveAll has left; true if the owner was registered at the source
	parting map[Source]place // places in the views of Parting
	among   place            // the place in the watch of namespaces; zero if no namespaces are watched
}

// Close ends the monitor. It does not call the receiver.
func (m *Monitor) Close() {
	m.update(func() { m.closed = true })
	m.stop()
	m.leaveAll()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parting {
		p.leave(false)
	}
}

// Snapshot returns the current objects of the monitor, sorted by namespace and name. There are none before the first
// list, and if the kind is not served. Several callers may get the same slice, so they must not change it.
func (m *Monitor) Snapshot() []*Object {
	m.mu.Lock()
	places := slices.Collect(maps.Values(m.places))
	m.mu.Unlock()
	var objects []*Object
	for _, p := range places {
		shown, full := p.snapshot()
		if len(places) == 1 && full == m.spec.KeepFull {
			return shown
		}
		for _, object := range shown {
			if object.Raw != nil && !m.spec.KeepFull { // another owner of the view keeps full objects
				slim := *object
				slim.Raw = nil
				object = &slim
			}
			objects = append(objects, object)
		}
	}
	slices.SortFunc(objects, compareObjects)
	return objects
}

// Views returns the current views of the monitor, sorted as text.
func (m *Monitor) Views() []View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.viewsOf(m.places)
}

// Parting returns the views that the monitor joined only to deliver their remaining changes (see [Spec]), sorted as
// text. If the kind is served, the views are known when [Monitor.Wait] returns nil. They stay in the result after the
// monitor has left them.
func (m *Monitor) Parting() []View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.viewsOf(m.parting)
}

// viewsOf returns the views of places, sorted as text.
func (m *Monitor) viewsOf(places map[Source]place) []View {
	byText := make(map[string]View, len(places))
	for source := range places {
		v := View{source, m.spec.Filter.String()}
		byText[v.String()] = v
	}
	views := make([]View, 0, len(places))
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		views = append(views, byText[text])
	}
	return views
}

// Follows reports whether v is one of the [Monitor.Views].
func (m *Monitor) Follows(v View) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.has(v, m.places)
}

// Uses reports whether v is one of the [Monitor.Views] or one of the views that [Monitor.Parting] returns. The kind of
// v can be empty. If the monitor has no views, the result known is false.
func (m *Monitor) Uses(v View) (used, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.has(v, m.places) || m.has(v, m.parting), len(m.places)+len(m.parting) > 0
}

// has reports whether v is one of the views of places. The kind of v can be empty. The caller holds the lock.
func (m *Monitor) has(v View, places map[Source]place) bool {
	for source := range places {
		v.Kind = cmp.Or(v.Kind, source.Kind) // all these sources have the same kind
		break
	}
	_, found := places[v.Source]
	return found && v.Filter == m.spec.Filter.String()
}

// Failure says for which object a filter currently fails.
type Failure struct {
	Namespace, Name string
	// Err says why the filter fails. It contains no content of the object.
	Err string
}

// Failures returns the objects for which the filter of the monitor currently fails, sorted by namespace and name. For
// each view, at most 1000 objects are recorded.
func (m *Monitor) Failures() []Failure {
	m.mu.Lock()
	places := slices.Collect(maps.Values(m.places))
	m.mu.Unlock()
	var all []Failure
	for _, p := range places {
		p.watch.mu.Lock()
		for key, text := range p.view.failing {
			all = append(all, Failure{key.namespace, key.name, text})
		}
		p.watch.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Wait returns nil when the snapshot is complete and the receiver has accepted it, or when it is known that the kind
// is not served. If ctx ends first, the error says which list is missing and why. Wait also returns an error if the
// monitor is closed.
func (m *Monitor) Wait(ctx context.Context) error {
	for {
		m.mu.Lock()
		moved, settled, closed := m.moved, m.settled, m.closed
		places := slices.Collect(maps.Values(m.places))
		m.mu.Unlock()
		if closed {
			return fmt.Errorf("objects of kind %q: the monitor is closed", m.spec.Selection.Kind)
		}
		pending := slices.IndexFunc(places, func(p place) bool { return !isClosed(p.owner.ready) })
		if settled && pending < 0 {
			return nil
		}
		var ready <-chan struct{}
		if pending >= 0 {
			ready = places[pending].owner.ready
		}
		select {
		case <-ready:
		case <-moved:
		case <-ctx.Done():
			if pending >= 0 {
				return places[pending].unknown(ctx)
			}
			return m.unsettled(ctx)
		}
	}
}

// IsComplete reports whether the snapshot is complete and the receiver has accepted it, or it is known that the kind is
// not served. It does not wait. If the monitor is closed, IsComplete returns false.
func (m *Monitor) IsComplete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.settled {
		return false
	}
	for _, p := range m.places {
		if !isClosed(p.owner.ready) {
			return false
		}
	}
	return true
}

// unsettled returns the error of [Monitor.Wait] if ctx has ended before the sources are known.
func (m *Monitor) unsettled(ctx context.Context) error {
	m.mu.Lock()
	problem, among := m.problem, m.among
	m.mu.Unlock()
	if problem == nil && among.watch != nil {
		return among.unknown(ctx)
	}
	return fmt.Errorf("objects of kind %q are not known yet: %w", m.spec.Selection.Kind, orEnd(ctx, problem))
}

// orEnd returns err or, if err is nil, the cause for which ctx has ended.
func orEnd(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// update calls the given function under the lock, so that the function can change the state of the monitor. Then update
// wakes the goroutines that wait for a change.
func (m *Monitor) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.moved)
	m.moved = make(chan struct{})
}

// run waits until the kind is served, and follows its objects. When the kind is no longer served, run waits until it
// is served again.
func (m *Monitor) run(ctx context.Context) {
	var again retry
	appeared := m.spec.Resume && !m.plan.followsNamespace // in the earlier process, each view that the receiver has not stored was empty
	m.earlier = m.earlierSources()
	for ctx.Err() == nil {
		kind, waited := m.resolve(ctx)
		if ctx.Err() != nil {
			return
		}
		m.version = kind.GroupVersion().String()
		m.follow(ctx, kind, appeared || waited)
		if ctx.Err() != nil {
			return // without leaveAll, so that the last snapshot can be read until the monitor is closed
		}
		if m.leaveAll() {
			again.reset()
		}
		appeared = true
		again.pause(ctx, ErrNotServed, nil)
	}
}

// resolve waits until the kind is served, and returns it. The result waited is true if the kind was not served at
// first. In this case, the owner has got an empty snapshot.
//
// If the kinds of the preferred version cannot be read for undecidedWithin, but another version has the kind, resolve
// returns the kind in the other version. This does not apply to monitors that have followed the kind in a version that
// is still served, see lookUp.
func (m *Monitor) resolve(ctx context.Context) (kind Kind, waited bool) {
	var again retry
	var patience <-chan time.Time // ends the wait for the preferred version; nil if there is no such wait
	for {
		kind, err := m.lookUp(ctx)
		if err == nil || ctx.Err() != nil {
			return kind, waited
		}
		other, undecided := errors.AsType[*undecidedError](err)
		switch {
		case !undecided:
			patience = nil
		case patience == nil:
			patience = time.After(m.watches.undecidedWithin)
		}
		select {
		case <-patience:
			m.watches.observer.kindSettled(m.spec.Owner, other.found, err)
			return other.found, waited
		default:
		}
		if !errors.Is(err, ErrNotServed) {
			m.watches.observer.kindFailed(m.plan.apiVersion, m.plan.kind, err)
			m.update(func() { m.problem = err })
			again.pause(ctx, err, nil)
			continue
		}
		m.update(func() { m.settled, m.problem = true, nil })
		if !waited {
			m.watches.observer.kindAwaited(m.spec.Owner, err)
		}
		waited = true
		if kind, served := m.awaitServed(ctx, err); served {
			return kind, waited
		}
	}
}

// lookUp returns the kind. If the selection has no version, lookUp prefers the version in which the owner has followed
// the kind, in this process or an earlier one. In another version, all objects would be new, and the deletions since
// the end of the earlier watch would be missed.
func (m *Monitor) lookUp(ctx context.Context) (Kind, error) {
	if m.plan.apiVersion == "" && m.version != "" {
		if kind, err := m.watches.kinds.Resolve(ctx, m.version, m.plan.kind); !errors.Is(err, ErrNotServed) {
			return kind, err
		}
	}
	return m.watches.kinds.Resolve(ctx, m.plan.apiVersion, m.plan.kind)
}

// awaitServed waits until the kind is served, and returns it. If ctx ends first, awaitServed returns false. The
// argument missing is the error of the lookup that has not found the kind. If this error says that the kinds of some
// API groups could not be read, awaitServed also returns false after undiscoveredEvery, so that the caller reads these
// groups again.
func (m *Monitor) awaitServed(ctx context.Context, missing error) (Kind, bool) {
	served, stop := m.watches.kinds.Served(m.plan.apiVersion, m.plan.kind)
	defer stop()
	var look <-chan time.Time
	if unsure := (*NotServedError)(nil); errors.As(missing, &unsure) && unsure.Undiscovered != nil {
		m.watches.observer.kindFailed(m.plan.apiVersion, m.plan.kind, missing)
		timer := time.NewTimer(undiscoveredEvery)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case <-ctx.Done():
	case <-look:
	case kind := <-served:
		return kind, true
	}
	return Kind{}, false
}

// follow follows the objects of kind until ctx ends or the kind is no longer served.
func (m *Monitor) follow(ctx context.Context, kind Kind, appeared bool) {
	var namespaces place
	if m.plan.followsNamespace && kind.Namespaced {
		source := Source{Version: "v1", Resource: "namespaces", Kind: namespaceKind, Labels: m.plan.namespaceLabels}
		namespaces = m.watches.namespaces.join(source, nil, &owner{name: m.spec.Owner, changed: func() { signal(m.wake) }})
		defer namespaces.leave(false)
		m.update(func() { m.among, m.problem = namespaces, nil })
		select {
		case <-ctx.Done():
			return
		case <-namespaces.owner.ready:
		}
	}
	for {
		wanted := m.wants(kind, namespaces)
		m.arrange(wanted, m.unwanted(kind, wanted), appeared)
		m.earlier = nil
		appeared = false // later, sources are added only because their namespaces have started to match
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		if m.lost(ctx, kind) {
			return
		}
	}
}

// lost reports whether the API server no longer serves the kind, or serves it with a change, such as another resource
// name. lost checks this only if a source was not served. If the server still serves the same kind, or cannot be asked,
// lost returns false, and the watch retries.
func (m *Monitor) lost(ctx context.Context, kind Kind) bool {
	m.mu.Lock()
	gone := m.gone
	m.gone = false
	m.mu.Unlock()
	if !gone {
		return false
	}
	m.watches.client.mapper.ResetWithContext(ctx)
	now, err := m.lookUp(ctx)
	if err != nil {
		return errors.Is(err, ErrNotServed)
	}
	return now != kind
}

// wants returns the sources that the monitor should follow now.
func (m *Monitor) wants(kind Kind, namespaces place) []Source {
	if namespaces.watch == nil {
		return m.plan.sources(kind, m.plan.namespaces)
	}
	matching, _ := namespaces.snapshot()
	if len(matching) == 0 {
		return nil
	}
	names := make([]string, len(matching))
	for i, namespace := range matching {
		names[i] = namespace.Name
	}
	return m.plan.sources(kind, names)
}

// earlierSources returns the sources that the owner followed with the same filter in earlier processes. If all of them
// have the same version, lookUp prefers this version from then on. If the selection sets the version and has no
// NamespaceLabels, earlierSources returns nil, because the sources are then not needed.
func (m *Monitor) earlierSources() (sources []Source) {
	if m.spec.Earlier == nil || (m.plan.apiVersion != "" && !m.plan.followsNamespace) {
		return nil
	}
	versions := map[string]bool{}
	for _, v := range m.spec.Earlier() {
		if v.Filter == m.spec.Filter.String() {
			sources = append(sources, v.Source)
			versions[v.APIVersion()] = true
		}
	}
	if len(versions) == 1 {
		m.version = sources[0].APIVersion()
	}
	return sources
}

// unwanted returns the earlier sources of kind that are not wanted, because their namespaces do not match any more.
func (m *Monitor) unwanted(kind Kind, wanted []Source) (unwanted []Source) {
	if !m.plan.followsNamespace {
		return nil
	}
	isWanted := map[Source]bool{}
	for _, source := range wanted {
		isWanted[source] = true
	}
	for _, source := range m.earlier {
		source.Kind = kind.Kind
		if slices.Contains(m.plan.sources(kind, []string{source.Namespace}), source) && !isWanted[source] {
			unwanted = append(unwanted, source)
		}
	}
	return unwanted
}

// arrange joins the sources in wanted that the monitor does not follow yet, and leaves the followed sources that are
// not in wanted. It also joins the sources in unwanted, and leaves them when their remaining changes are delivered.
func (m *Monitor) arrange(wanted, unwanted []Source, appeared bool) {
	delivered := map[Source]bool{} // its keys are the sources in wanted
	for _, source := range wanted {
		delivered[source] = m.spec.wasDelivered(View{source, m.spec.Filter.String()})
	}
	m.update(func() {
		if m.closed {
			return
		}
		m.settled, m.problem = true, nil
		for source, p := range m.places {
			if _, stays := delivered[source]; !stays {
				delete(m.places, source)
				delete(m.known, source)
				p.leave(true)
			}
		}
		for _, source := range wanted {
			if _, followed := m.places[source]; !followed {
				m.places[source] = m.watches.objects.join(source, m.spec.Filter, &owner{
					name: m.spec.Owner, keep: m.spec.KeepFull, resume: delivered[source] || m.known[source],
					appeared: appeared, period: m.spec.Period, notServed: m.notServed,
				})
			}
		}
		if len(unwanted) > 0 {
			m.parting = map[Source]place{} // allocated only here, because few monitors need it
		}
		for _, source := range unwanted {
			m.parting[source] = m.watches.objects.join(source, m.spec.Filter, &owner{name: m.spec.Owner, keep: m.spec.KeepFull, resume: true})
			m.parting[source].leave(true)
		}
	})
}

// notServed is called if the API server does not serve a source of the monitor.
func (m *Monitor) notServed() {
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
	signal(m.wake)
}

// leaveAll leaves all sources at once, and changes that are still pending are not delivered. Afterwards the snapshot
// of the monitor is empty, and the sources are unknown until the kind is looked up again. leaveAll reports whether the
// owner was registered at any source.
func (m *Monitor) leaveAll() (registered bool) {
	m.update(func() {
		for source, p := range m.places {
			m.known[source] = isClosed(p.owner.ready)
			registered = registered || m.known[source]
			p.leave(false)
		}
		clear(m.places)
		m.settled, m.among = false, place{}
	})
	return registered
}
