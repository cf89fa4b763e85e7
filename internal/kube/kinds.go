package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"addon-operator/internal/jq"
)

// definitionFilter returns the kind that a CustomResourceDefinition defines, or null if the API server does not serve
// the kind.
const definitionFilter = `select(.metadata.deletionTimestamp == null
	and any(.status.conditions[]?; .type == "Established" and .status == "True"))
| {group: .spec.group, namespaced: (.spec.scope == "Namespaced"), kind: .spec.names.kind, plural: .spec.names.plural,
	shortNames: (.spec.names.shortNames // []), versions: [.spec.versions[] | select(.served) | .name]}`

// groupFilter returns the group and the version that an APIService adds, or null if the APIService is not available.
const groupFilter = `select(any(.status.conditions[]?; .type == "Available" and .status == "True"))
| {group: .spec.group, version: .spec.version, remote: (.spec.service != null)}`

// requestEvery is the interval at which the kinds of an extension API server are requested while callers wait for a
// kind that may be among them. There is no event for a new kind of an extension API server.
const requestEvery = time.Minute

// searchEvery is the interval at which the API server's list of kinds is searched while callers wait for a kind. Kinds
// that are compiled into the API server appear with its upgrade. During a rolling upgrade, a watch can continue without
// a gap at an instance that has been upgraded before. Then it is possible that neither an event nor a list reports
// these kinds.
const searchEvery = 5 * time.Minute

// definition is a result of definitionFilter that is not null.
type definition struct {
	Group      string   `json:"group"`
	Namespaced bool     `json:"namespaced"`
	Kind       string   `json:"kind"`
	Plural     string   `json:"plural"`
	ShortNames []string `json:"shortNames"`
	Versions   []string `json:"versions"`
}

// group is a result of groupFilter that is not null.
type group struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Remote  bool   `json:"remote"` // whether an extension API server serves the group
}

func (g group) String() string {
	return schema.GroupVersion{Group: g.Group, Version: g.Version}.String()
}

// Kinds tells callers when the API server starts to serve the kinds for which they wait. When the first caller waits
// for a kind, Kinds starts to watch the CustomResourceDefinitions and APIServices of the cluster. Kinds is safe for
// concurrent use.
type Kinds struct {
	client       *Client
	observer     Observer
	reads        *reads
	begin        func() // calls join once
	requestEvery time.Duration

	mu          sync.Mutex
	defined     bool                                 // the first list of CustomResourceDefinitions has arrived
	definitions map[string][]*metav1.APIResourceList // the kinds that CustomResourceDefinitions define, by the name of the CustomResourceDefinition
	groups      map[string]group                     // the available groups that extension API servers serve, by the name of the APIService
	waiting     map[*wanted]struct{}
	reaching    map[group]chan struct{} // the groups for which reach is running, each with a channel that ends its pause
}

// wanted is a kind for which a caller waits.
type wanted struct {
	apiVersion, name string
	served           chan Kind
}

// NewKinds returns a Kinds for the cluster of client. Its watches run only while [Kinds.Run] runs.
func NewKinds(client *Client, observer Observer) *Kinds {
	k := &Kinds{
		client: client, observer: observer, requestEvery: requestEvery,
		definitions: map[string][]*metav1.APIResourceList{}, groups: map[string]group{}, waiting: map[*wanted]struct{}{},
		reaching: map[group]chan struct{}{},
	}
	k.reads = newReads(client, &appearances{Kinds: k}, observer)
	k.begin = sync.OnceFunc(k.join)
	return k
}

// Run runs the watches until ctx ends. Run returns when all their goroutines have ended. Call it once.
func (k *Kinds) Run(ctx context.Context) { k.reads.workers.run(ctx) }

var (
	definitionSource = Source{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
	}
	groupSource = Source{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Kind: "APIService"}
)

// Served returns a channel for the kind with this name in apiVersion; [Client.Resolve] describes both arguments. The
// channel gets the kind when the API server serves it, or at once if it is already known. The channel gets at most one
// kind. When the caller no longer waits, it must call stop. If an extension API server that is already in use starts to
// serve the kind, the channel gets the kind within a minute. If the kind is compiled into the API server, and appears
// with its upgrade, the channel gets the kind within five minutes after the upgrade.
//
// The API server announces a kind shortly before it serves the kind. So requests for objects of the kind may fail with
// "not found" for a short time.
func (k *Kinds) Served(apiVersion, name string) (served <-chan Kind, stop func()) {
	w := &wanted{apiVersion, name, make(chan Kind, 1)}
	k.mu.Lock()
	k.waiting[w] = struct{}{}
	for _, lists := range k.definitions {
		w.offer(lists)
	}
	for _, g := range k.groups {
		if w.isIn(g) {
			k.startReach(g)
		}
	}
	k.mu.Unlock()
	k.begin()
	return w.served, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, w)
	}
}

// Resolve is like [Client.Resolve], but also finds kinds that the watches of k have found. For a short time, such a
// kind may still be missing from the API server's list of kinds.
func (k *Kinds) Resolve(ctx context.Context, apiVersion, name string) (Kind, error) {
	kind, missing := k.client.Resolve(ctx, apiVersion, name)
	if !errors.Is(missing, ErrNotServed) {
		return kind, missing
	}
	w := &wanted{apiVersion, name, make(chan Kind, 1)}
	k.mu.Lock()
	for _, lists := range k.definitions {
		w.offer(lists)
	}
	groups := slices.Collect(maps.Values(k.groups))
	k.mu.Unlock()
	for _, g := range groups {
		if !w.isIn(g) {
			continue
		}
		if list, err := k.client.resources(ctx, g.String()); err == nil {
			w.offer([]*metav1.APIResourceList{list})
		}
	}
	select {
	case kind := <-w.served:
		return kind, nil
	default:
		return Kind{}, missing
	}
}

// join starts the watches of CustomResourceDefinitions and APIServices, and the search for kinds that no watch reports.
func (k *Kinds) join() {
	k.reads.workers.start(k.search)
	for _, watched := range []struct {
		source Source
		text   string
	}{{definitionSource, definitionFilter}, {groupSource, groupFilter}} {
		filter, err := jq.CompileOwn(watched.text)
		if err != nil {
			k.observer.sourceFailed(watched.source, err)
			continue
		}
		k.reads.join(watched.source, filter, &owner{name: "kinds"})
	}
}

// isIn reports whether the kind may be in the group and version g.
func (w *wanted) isIn(g group) bool { return w.apiVersion == "" || w.apiVersion == g.String() }

// offer sends the kind to the caller that waits for it, if the kind is one of the listed kinds.
func (w *wanted) offer(lists []*metav1.APIResourceList) {
	if w.apiVersion != "" {
		lists = slices.DeleteFunc(slices.Clone(lists), func(l *metav1.APIResourceList) bool { return l.GroupVersion != w.apiVersion })
	}
	kind, found := matchKind(lists, w.name)
	if !found {
		return
	}
	select {
	case w.served <- kind:
	default: // a kind has already been sent
	}
}

// offerAll sends each of the listed kinds to the callers that wait for the kind. The caller of offerAll holds the lock.
func (k *Kinds) offerAll(lists []*metav1.APIResourceList) {
	for w := range k.waiting {
		w.offer(lists)
	}
}

// define stores the kind that the CustomResourceDefinition o now defines, and sends it to the callers that wait for
// it. If o is deleted or the API server does not serve the kind, define removes the kind.
func (k *Kinds) define(o *Object, gone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.definitions, o.Name)
	if gone || o.Unfiltered || string(o.FilterResult) == "null" {
		return
	}
	var d definition
	if err := json.Unmarshal(o.FilterResult, &d); err != nil {
		k.observer.sourceFailed(definitionSource, fmt.Errorf("read CustomResourceDefinition %s: %w", o.Name, err))
		return
	}
	slices.SortFunc(d.Versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	var lists []*metav1.APIResourceList
	for _, v := range d.Versions {
		lists = append(lists, &metav1.APIResourceList{
			GroupVersion: schema.GroupVersion{Group: d.Group, Version: v}.String(),
			APIResources: []metav1.APIResource{{Name: d.Plural, Kind: d.Kind, ShortNames: d.ShortNames, Namespaced: d.Namespaced}},
		})
	}
	k.definitions[o.Name] = lists
	k.offerAll(lists)
}

// search calls resolveAgain at the interval searchEvery until ctx ends.
func (k *Kinds) search(ctx context.Context) {
	for {
		sleep(ctx, searchEvery, nil)
		if ctx.Err() != nil {
			return
		}
		if err := k.resolveAgain(ctx); err != nil && ctx.Err() == nil {
			k.observer.sourceFailed(groupSource, err)
		}
	}
}

// resolveAgain searches the API server's list of kinds for each kind for which a caller waits. A kind may have appeared
// between the lookup by its caller and the start of the watches, or without an event; see searchEvery. If a lookup
// fails, resolveAgain continues with the other kinds, and returns the error.
func (k *Kinds) resolveAgain(ctx context.Context) error {
	k.mu.Lock()
	waiting := make([]*wanted, 0, len(k.waiting))
	for w := range k.waiting {
		waiting = append(waiting, w)
	}
	k.mu.Unlock()
	if len(waiting) == 0 {
		return nil
	}
	k.client.mapper.ResetWithContext(ctx)
	var errs []error
	for _, w := range waiting {
		kind, err := k.client.lookUp(ctx, w.apiVersion, w.name)
		switch {
		case errors.Is(err, ErrNotServed):
		case err != nil:
			errs = append(errs, err)
		default:
			select {
			case w.served <- kind:
			default:
			}
		}
	}
	return errors.Join(errs...)
}

// announce returns the group that the APIService o now adds, and whether the group is available. If an extension API
// server serves the group, announce stores it.
func (k *Kinds) announce(o *Object, gone bool) (group, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.groups, o.Name)
	if gone || o.Unfiltered || string(o.FilterResult) == "null" {
		return group{}, false
	}
	var g group
	if err := json.Unmarshal(o.FilterResult, &g); err != nil {
		k.observer.sourceFailed(groupSource, fmt.Errorf("read APIService %s: %w", o.Name, err))
		return group{}, false
	}
	if g.Remote {
		k.groups[o.Name] = g
	}
	return g, true
}

// startReach starts a goroutine that calls reach for g, unless reach has nothing to do. If such a goroutine is already
// running, startReach ends its delay, so that it requests the kinds of g at once. The caller holds the lock.
func (k *Kinds) startReach(g group) {
	if wake := k.reaching[g]; wake != nil {
		signal(wake)
		return
	}
	if !k.needs(g) {
		return
	}
	wake := make(chan struct{}, 1)
	k.reaching[g] = wake
	k.reads.workers.start(func(ctx context.Context) { k.reach(ctx, g, wake) })
}

// needs reports whether g is available and a caller waits for a kind that may be in g. The caller of needs holds the
// lock.
//
// A group is local if no extension API server serves it. New kinds of a local group come from
// CustomResourceDefinitions, or from an upgrade of the API server; the method search finds the latter. After the first
// list of CustomResourceDefinitions, needs returns false for a local g. So callers get each kind from its
// CustomResourceDefinition, in the preferred version. From g, they could get the kind in another version. Then the next
// process of the operator would use the preferred version, which is another source, and would deliver all objects
// again.
func (k *Kinds) needs(g group) bool {
	available := !k.defined
	if g.Remote {
		available = slices.Contains(slices.Collect(maps.Values(k.groups)), g)
	}
	for w := range k.waiting {
		if available && w.isIn(g) {
			return true
		}
	}
	return false
}

// requestNow makes reach request the kinds of g at once, if needs returns true for g.
func (k *Kinds) requestNow(g group) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.startReach(g)
}

// reach requests the kinds of g, and sends each kind to the callers that wait for it. If a request fails, reach repeats
// it after a delay. Even "not found" is not final for an extension API server, because the API server announces a group
// shortly before it serves the group. After a successful request, reach requests the kinds again at the interval
// requestEvery. The channel wake ends a delay. reach returns when ctx ends, or when needs returns false for g. For a
// local group, it also returns after a request that has succeeded or was refused.
func (k *Kinds) reach(ctx context.Context, g group, wake <-chan struct{}) {
	var again retry
	for k.continues(ctx, g) {
		list, err := k.client.resources(ctx, g.String())
		switch {
		case err == nil:
			k.mu.Lock()
			k.offerAll([]*metav1.APIResourceList{list})
			k.mu.Unlock()
		case apierrors.IsNotFound(err) && !g.Remote: // the kinds of g will come from the CustomResourceDefinitions
		default:
			k.observer.sourceFailed(groupSource, err)
		}
		switch {
		case !g.Remote && (err == nil || IsRefused(err)):
			k.mu.Lock()
			delete(k.reaching, g)
			k.mu.Unlock()
			return
		case err == nil:
			again.reset()
			sleep(ctx, k.requestEvery, wake)
		default:
			again.pause(ctx, err, wake)
		}
	}
}

// continues reports whether reach must send another request. If not, startReach can start another goroutine for g from
// then on.
func (k *Kinds) continues(ctx context.Context, g group) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil && k.needs(g) {
		return true
	}
	delete(k.reaching, g)
	return false
}

// appearances is the Receiver for the watches of a Kinds.
type appearances struct {
	silent
	*Kinds
}

func (a *appearances) Listed(ctx context.Context, list List) error {
	if list.View.Source == groupSource {
		a.mu.Lock()
		clear(a.groups)
		a.mu.Unlock()
		for _, o := range list.Objects {
			if g, available := a.announce(o, false); available && g.Remote { // for local groups, see resolveAgain
				a.requestNow(g)
			}
		}
		return a.resolveAgain(ctx)
	}
	a.mu.Lock()
	clear(a.definitions)
	a.defined = true
	a.mu.Unlock()
	for _, o := range list.Objects {
		a.define(o, false)
	}
	return nil
}

func (a *appearances) Changed(_ context.Context, batch Batch) error {
	for _, change := range batch.Changes {
		if batch.Source == definitionSource {
			a.define(change.Object, change.Type == Deleted)
		} else if g, available := a.announce(change.Object, change.Type == Deleted); available {
			a.requestNow(g)
		}
	}
	return nil
}
