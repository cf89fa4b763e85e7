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

// definitionFilter is what a CustomResourceDefinition says about the kind it defines; null if that is not served.
const definitionFilter = `select(.metadata.deletionTimestamp == null
	and any(.status.conditions[]?; .type == "Established" and .status == "True"))
| {group: .spec.group, namespaced: (.spec.scope == "Namespaced"), kind: .spec.names.kind, plural: .spec.names.plural,
	shortNames: (.spec.names.shortNames // []), versions: [.spec.versions[] | select(.served) | .name]}`

// groupFilter is what an APIService says about the group and version it brings; null if that cannot be reached.
const groupFilter = `select(any(.status.conditions[]?; .type == "Available" and .status == "True"))
| {group: .spec.group, version: .spec.version, remote: (.spec.service != null)}`

// definition is what definitionFilter leaves of a CustomResourceDefinition.
type definition struct {
	Group      string   `json:"group"`
	Namespaced bool     `json:"namespaced"`
	Kind       string   `json:"kind"`
	Plural     string   `json:"plural"`
	ShortNames []string `json:"shortNames"`
	Versions   []string `json:"versions"`
}

// group is what groupFilter leaves of an APIService.
type group struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Remote  bool   `json:"remote"` // served by another server than the API server itself
}

func (g group) String() string {
	return schema.GroupVersion{Group: g.Group, Version: g.Version}.String()
}

// Kinds tells when kinds that are not served appear. While somebody waits for one, and from then on, it watches the
// cluster's CustomResourceDefinitions and APIServices. It may be used from many goroutines at once.
type Kinds struct {
	client   *Client
	observer Observer
	reads    *reads
	begin    func() // joins the two watches, once

	mu          sync.Mutex
	defined     bool                                 // definitions are known, so they tell of all their kinds
	definitions map[string][]*metav1.APIResourceList // by the name of the CustomResourceDefinition
	groups      map[string]group                     // those that are remote and can be reached, by the name of the APIService
	waiting     map[*wanted]struct{}
}

// wanted is a kind somebody waits for.
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

// Served returns a channel that receives the kind that goes by name in apiVersion, as for [Client.Resolve], when the API
// server serves it, which may be at once. It receives one kind at most. Call stop when it is no longer waited for.
//
// The kind was just announced: objects of it may be refused as not found a moment longer.
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

// Resolve is [Client.Resolve], but for a kind that was announced and is missing from what the server says it serves, as
// happens for a moment after it has appeared.
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

// join begins to watch what can bring kinds.
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

// isIn reports whether g may have what is wanted.
func (w *wanted) isIn(g group) bool { return w.apiVersion == "" || w.apiVersion == g.String() }

// offer gives w its kind if it is in lists.
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

// offerAll gives those who wait for kinds in lists what they wait for. The caller holds the lock.
func (k *Kinds) offerAll(lists []*metav1.APIResourceList) {
	for w := range k.waiting {
		w.offer(lists)
	}
}

// define takes in what a CustomResourceDefinition says now.
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

// lookAgain resolves what is waited for by what the server serves now: something may have appeared between the time it was
// missed and the time the watches began.
func (k *Kinds) lookAgain(ctx context.Context) error {
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

// announce takes in what an APIService says now, and reports whether its group can be reached.
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
			return // of its kinds, CustomResourceDefinitions tell
		}
		k.observer.sourceFailed(groupSource, err)
		if IsRefused(err) {
			return
		}
		again.pause(ctx, err, nil)
	}
}

// appearances receives what the watches of a Kinds show.
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
		return a.lookAgain(ctx)
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
