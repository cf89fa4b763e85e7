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

// definitionFilter selects the kind that a CustomResourceDefinition defines; null if it is not
// served.
const definitionFilter = `select(.metadata.deletionTimestamp == null
	and any(.status.conditions[]?; .type == "Established" and .status == "True"))
| {group: .spec.group, namespaced: (.spec.scope == "Namespaced"), kind: .spec.names.kind, plural: .spec.names.plural,
	shortNames: (.spec.names.shortNames // []), versions: [.spec.versions[] | select(.served) | .name]}`

// groupFilter selects the group and version that an APIService adds; null if it cannot be reached.
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
	Remote  bool   `json:"remote"` // served by another server than the API server itself
}

func (g group) String() string {
	return schema.GroupVersion{Group: g.Group, Version: g.Version}.String()
}

// Kinds reports when unserved kinds become served. From the first wait for a kind on, it watches
// the CustomResourceDefinitions and APIServices of the cluster. It is safe for concurrent use.
type Kinds struct {
	client   *Client
	observer Observer
	reads    *reads
	begin    func() // joins the two watches, once

	mu          sync.Mutex
	defined     bool                                 // definitions has all definitions
	definitions map[string][]*metav1.APIResourceList // by the name of the CustomResourceDefinition
	groups      map[string]group                     // those that are remote and can be reached, by the name of the APIService
	waiting     map[*wanted]struct{}
}

// wanted is a kind that a caller waits for.
type wanted struct {
	apiVersion, name string
	served           chan Kind
}

// NewKinds returns a Kinds for the cluster of client. Nothing is watched before [Kinds.Run] runs.
func NewKinds(client *Client, observer Observer) *Kinds {
	k := &Kinds{
		client: client, observer: observer,
		definitions: map[string][]*metav1.APIResourceList{}, groups: map[string]group{}, waiting: map[*wanted]struct{}{},
	}
	k.reads = newReads(client, &appearances{k}, observer)
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
// [Client.Resolve], when the API server serves it. This may be at once. The channel receives at
// most one kind. Call stop at the end of the wait.
//
// The kind has just been announced. For a moment, requests for its objects may still fail as not
// found.
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

// Resolve is [Client.Resolve] for a kind that was announced. For a moment, such a kind may be
// missing from the list of served kinds.
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

// isIn reports whether g may have the kind.
func (w *wanted) isIn(g group) bool { return w.apiVersion == "" || w.apiVersion == g.String() }

// offer sends w its kind if lists has it.
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
	default: // has one already
	}
}

// offerAll sends the kinds in lists to the callers that wait for them. The caller holds the lock.
func (k *Kinds) offerAll(lists []*metav1.APIResourceList) {
	for w := range k.waiting {
		w.offer(lists)
	}
}

// define stores the kind that a CustomResourceDefinition defines now.
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

// resolveAgain resolves the awaited kinds from the list of served kinds. A kind may have appeared
// between the failed lookup and the start of the watches.
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

// announce stores the group that an APIService adds now, and reports whether the group can be
// reached.
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

// reach reads the kinds of g if one of them may be waited for. It tries again until that succeeds, because a group is
// announced a moment before it is served. The kinds of a local group are those of CustomResourceDefinitions. If these are
// known, reach leaves the kinds to them: g is only one version of its group, and may not be the preferred one. The next
// process would resolve the preferred one, and would deliver the objects again as those of another source.
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
			return // the CustomResourceDefinitions have its kinds
		}
		k.observer.sourceFailed(groupSource, err)
		if IsRefused(err) {
			return
		}
		again.pause(ctx, err, nil)
	}
}

// appearances is the Receiver of the watches of a Kinds.
type appearances struct{ *Kinds }

func (a *appearances) Stored(context.Context, View) (string, error) { return "", nil }
func (a *appearances) Left(context.Context, View, []string) error   { return nil }

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
