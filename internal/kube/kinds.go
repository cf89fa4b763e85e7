package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"addon-operator/internal/jq"
)

// definitionFilter selects the kind that a CustomResourceDefinition defines. The result is null if
// the API server does not serve the kind.
const definitionFilter = `select(.metadata.deletionTimestamp == null
	and any(.status.conditions[]?; .type == "Established" and .status == "True"))
| {group: .spec.group, namespaced: (.spec.scope == "Namespaced"), kind: .spec.names.kind, plural: .spec.names.plural,
	shortNames: (.spec.names.shortNames // []), versions: [.spec.versions[] | select(.served) | .name]}`

// groupFilter selects the group and version that an APIService adds. The result is null if the
// APIService is not available.
const groupFilter = `select(any(.status.conditions[]?; .type == "Available" and .status == "True"))
| {group: .spec.group, version: .spec.version, remote: (.spec.service != null)}`

// definition is the result of definitionFilter.
type definition struct {
	Group      string   `json:"group"`
	Namespaced bool     `json:"namespaced"`
	Kind       string   `json:"kind"`
	Plural     string   `json:"plural"`
	ShortNames []string `json:"shortNames"`
	Versions   []string `json:"versions"`
}

// group is the result of groupFilter.
type group struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Remote  bool   `json:"remote"` // an extension API server serves the group
}

func (g group) String() string {
	return schema.GroupVersion{Group: g.Group, Version: g.Version}.String()
}

// Kinds reports when unserved kinds become served. It starts to watch the CustomResourceDefinitions
// and APIServices of the cluster when the first caller waits for a kind. It is safe for concurrent
// use.
type Kinds struct {
	client   *Client
	observer Observer
	reads    *reads
	begin    func() // calls join once

	mu          sync.Mutex
	defined     bool                                 // the first list of CustomResourceDefinitions has arrived
	definitions map[string][]*metav1.APIResourceList // by the name of the CustomResourceDefinition
	groups      map[string]group                     // available groups of extension API servers, by the name of the APIService
	waiting     map[*wanted]struct{}
}

// wanted is a kind that a caller waits for.
type wanted struct {
	apiVersion, name string
	served           chan Kind
}

// NewKinds returns a Kinds for the cluster of client. The watches start only while [Kinds.Run]
// runs.
func NewKinds(client *Client, observer Observer) *Kinds {
	k := &Kinds{
		client: client, observer: observer,
		definitions: map[string][]*metav1.APIResourceList{}, groups: map[string]group{}, waiting: map[*wanted]struct{}{},
	}
	k.reads = newReads(client, &appearances{Kinds: k}, observer)
	k.begin = sync.OnceFunc(k.join)
	return k
}

// Run watches until ctx ends. It returns when all goroutines have ended. Call it once.
func (k *Kinds) Run(ctx context.Context) { k.reads.workers.run(ctx) }

var (
	definitionSource = Source{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
	}
	groupSource = Source{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Kind: "APIService"}
)

// Served returns a channel that receives the kind with that name in apiVersion, as in
// [Client.Resolve], when the API server serves that kind. If the kind is known already, the channel
// receives it at once. It receives at most one kind. The caller must call stop at the end of the
// wait.
//
// The API server announces a kind shortly before it serves the kind. So requests for objects of the
// kind may fail as not found for a moment.
func (k *Kinds) Served(apiVersion, name string) (served <-chan Kind, stop func()) {
	w := &wanted{apiVersion, name, make(chan Kind, 1)}
	k.mu.Lock()
	k.waiting[w] = struct{}{}
	for _, lists := range k.definitions {
		w.offer(lists)
	}
	groups := slices.Collect(maps.Values(k.groups))
	k.mu.Unlock()
	k.begin()
	for _, g := range groups {
		k.reads.workers.start(func(ctx context.Context) { k.reach(ctx, g) })
	}
	return w.served, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, w)
	}
}

// Resolve is like [Client.Resolve], but also finds kinds that were announced to the watches of k.
// For a moment, such a kind may be missing from the server's list of kinds.
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

// join starts the watches of the objects that add kinds.
func (k *Kinds) join() {
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

// isIn reports whether the group and version g may contain the kind.
func (w *wanted) isIn(g group) bool { return w.apiVersion == "" || w.apiVersion == g.String() }

// offer sends the kind to the waiting caller if lists contain it.
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
	default: // a kind was sent before
	}
}

// offerAll sends the kinds in lists to the callers that wait for them. The caller holds the lock.
func (k *Kinds) offerAll(lists []*metav1.APIResourceList) {
	for w := range k.waiting {
		w.offer(lists)
	}
}

// define stores the kind that the CustomResourceDefinition o defines now, and sends it to the
// callers that wait for it. If the definition is deleted or not served, define removes the kind.
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

// resolveAgain looks up the awaited kinds in the server's list of kinds. A kind may have appeared
// after its caller did not find it, and before the watches started.
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
	for _, w := range waiting {
		kind, err := k.client.lookUp(ctx, w.apiVersion, w.name)
		switch {
		case errors.Is(err, ErrNotServed):
		case err != nil:
			return err
		default:
			select {
			case w.served <- kind:
			default:
			}
		}
	}
	return nil
}

// announce stores the group that the APIService o adds now if an extension API server serves it. It
// returns the group, and reports whether the group is available.
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

// reach reads the kinds of g if a caller may wait for one of them, and sends them to these callers. The API server
// announces a group a moment before it serves the group, so reach repeats the request until it succeeds or is rejected.
//
// If g is local, its kinds are defined by CustomResourceDefinitions. Once these are known, reach does nothing for a
// local group: g is only one version of the group, and may not be the preferred version. The next process would resolve
// the preferred version, and would deliver all objects again because their source differs.
func (k *Kinds) reach(ctx context.Context, g group) {
	k.mu.Lock()
	asked := false
	for w := range k.waiting {
		asked = asked || w.isIn(g)
	}
	asked = asked && (g.Remote || !k.defined)
	k.mu.Unlock()
	if !asked {
		return
	}
	var again retry
	for ctx.Err() == nil {
		list, err := k.client.resources(ctx, g.String())
		if err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.offerAll([]*metav1.APIResourceList{list})
			return
		}
		if apierrors.IsNotFound(err) && !g.Remote {
			return // the CustomResourceDefinitions define the kinds of g
		}
		k.observer.sourceFailed(groupSource, err)
		if IsRefused(err) {
			return
		}
		again.pause(ctx, err, nil)
	}
}

// appearances is the Receiver of the watches of a Kinds.
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
			a.announce(o, false)
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
		} else if g, reachable := a.announce(change.Object, change.Type == Deleted); reachable {
			a.reads.workers.start(func(ctx context.Context) { a.reach(ctx, g) })
		}
	}
	return nil
}
