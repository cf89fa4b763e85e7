package bindings_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// objects has snapshots, by the ID of the binding, and counts the reads of each snapshot. The snapshots are complete,
// except those in incomplete.
type objects struct {
	of         map[string][]*kube.Object
	reads      map[string]int
	incomplete map[string]bool
}

func (objects) Ready(context.Context, string, string) error { return nil }

func (o objects) IsComplete(s graph.Subject) bool { return !o.incomplete[s.Binding] }

func (o objects) Snapshot(s graph.Subject) []*kube.Object {
	o.reads[s.Binding]++
	return o.of[s.Binding]
}

// reader returns a reader of a hook of module m with this configuration. The snapshot of the binding pods contains
// the object a, and the snapshot of the binding nodes contains the object b. Tasks with IDs before 1-100 have events for
// an earlier configuration of the binding secrets.
func reader(t *testing.T, config string) (*bindings.Reader, objects) {
	t.Helper()
	parsed, err := hook.Load(hook.Module, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	o := objects{
		of: map[string][]*kube.Object{
			"pods":  {{Namespace: "x", Name: "a", UID: "1", ResourceVersion: "10", Raw: json.RawMessage(`{"a":1}`), FilterResult: json.RawMessage(`"fa"`)}},
			"nodes": {{Name: "b", UID: "2", ResourceVersion: "20", Raw: json.RawMessage(`{"b":1}`), FilterResult: json.RawMessage(`"fb"`)}},
		},
		reads:      map[string]int{},
		incomplete: map[string]bool{},
	}
	var attached bindings.Attached
	attached.Connect(o)
	earlier := map[string]store.Binding{"secrets": {FormChanged: store.ID{Epoch: 1, N: 100}}}
	return attached.Reader("m", "hooks/h", parsed, earlier), o
}

// watching is a configuration with three bindings of group g, one of them in another queue, and with bindings without
// a group.
const watching = `{"configVersion": "v1", "kubernetes": [
	{"name": "pods", "kind": "Pod", "group": "g", "jqFilter": ".a"},
	{"name": "nodes", "kind": "Node", "group": "g", "keepFullObjectsInMemory": false, "jqFilter": ".b"},
	{"name": "other", "kind": "Node", "group": "g", "queue": "/q"},
	{"name": "maps", "kind": "ConfigMap"},
	{"name": "secrets", "kind": "Secret", "includeSnapshotsFrom": ["nodes"]}
], "schedule": [
	{"name": "often", "crontab": "* * * * *"},
	{"name": "with", "crontab": "* * * * *", "includeSnapshotsFrom": ["pods"]}
]}`

var (
	podItem  = hook.Item{Object: json.RawMessage(`{"a":1}`), FilterResult: json.RawMessage(`"fa"`)}
	nodeItem = hook.Item{FilterResult: json.RawMessage(`"fb"`)} // full objects are not kept
)

func TestSynchronizationOfAGroupShowsTheSnapshotsOfAllItsBindings(t *testing.T) {
	t.Parallel()
	look, o := reader(t, watching)
	e, shown, err := look.Synchronization("pods")
	if err != nil {
		t.Fatal(err)
	}
	want := hook.Element{
		Binding: "pods", Type: hook.TypeSynchronization, Group: "g", Objects: []hook.Item{podItem},
		Snapshots: map[string][]hook.Item{"pods": {podItem}, "nodes": {nodeItem}, "other": {}},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("element (-want +got):\n%s", diff)
	}
	versions := map[string]map[string]bindings.Version{
		"pods":  {"x/a": {UID: "1", ResourceVersion: "10"}},
		"nodes": {"/b": {UID: "2", ResourceVersion: "20"}},
	}
	if diff := cmp.Diff(versions, shown); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"pods": 1, "nodes": 1, "other": 1}, o.reads); diff != "" {
		t.Errorf("reads of each snapshot (-want +got):\n%s", diff)
	}
}

func TestSynchronizationOutsideOfAGroupShowsItsOwnObjects(t *testing.T) {
	t.Parallel()
	look, _ := reader(t, watching)
	e, shown, err := look.Synchronization("secrets")
	if err != nil {
		t.Fatal(err)
	}
	want := hook.Element{
		Binding: "secrets", Type: hook.TypeSynchronization, Objects: []hook.Item{}, Snapshots: map[string][]hook.Item{"nodes": {nodeItem}},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("element (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]map[string]bindings.Version{"secrets": {}}, shown); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestEventShowsTheObjectOfItsTask(t *testing.T) {
	t.Parallel()
	look, o := reader(t, watching)
	e, err := look.Event(&store.Task{
		Subject: graph.Subject{Module: "m", Hook: "hooks/h", Binding: "maps"}, Payload: json.RawMessage(`{"object":{"c":1}}`),
		Object: &store.ObjectRef{Event: hook.Deleted, Kind: "ConfigMap", Namespace: "x", Name: "c"},
	})
	want := hook.Element{
		Binding: "maps", Type: hook.TypeEvent, WatchEvent: hook.Deleted, Item: hook.Item{Object: json.RawMessage(`{"c":1}`)},
		Named: hook.Named{Kind: "ConfigMap", Namespace: "x", Name: "c"},
	}
	if diff := cmp.Diff(want, e); diff != "" || err != nil {
		t.Errorf("element (-want +got):\n%s%v", diff, err)
	}
	if len(o.reads) > 0 {
		t.Errorf("snapshots were read that the event does not show: %v", o.reads)
	}
}

func TestTickShowsTheSnapshotsThatItIncludes(t *testing.T) {
	t.Parallel()
	look, _ := reader(t, watching)
	e, err := look.Event(&store.Task{Subject: graph.Subject{Binding: "with"}})
	want := hook.Element{Binding: "with", Type: hook.TypeSchedule, Snapshots: map[string][]hook.Item{"pods": {podItem}}}
	if diff := cmp.Diff(want, e); diff != "" || err != nil {
		t.Errorf("element (-want +got):\n%s%v", diff, err)
	}
}

func TestEventWithAnUnreadablePayloadNamesItsTask(t *testing.T) {
	t.Parallel()
	look, _ := reader(t, watching)
	_, err := look.Event(&store.Task{
		ID: store.ID{Epoch: 3, N: 7}, Subject: graph.Subject{Binding: "maps"}, Payload: json.RawMessage(`{`), Object: &store.ObjectRef{Event: hook.Added},
	})
	if err == nil || !strings.Contains(err.Error(), "the event of task 3-7") {
		t.Errorf("error %v", err)
	}
}

func TestWhichTasksNeedSnapshots(t *testing.T) {
	t.Parallel()
	look, _ := reader(t, watching)
	for id, want := range map[string]bool{
		"pods": true, "nodes": true, "maps": false, "secrets": true, "often": false, "with": true, "deleted": false,
	} {
		if got := look.NeedsSnapshots(&store.Task{Subject: graph.Subject{Binding: id}}); got != want {
			t.Errorf("binding %s: %t, want %t", id, got, want)
		}
	}
}

func TestSizeOfTheSnapshotsThatATaskAddsToABindingContext(t *testing.T) {
	t.Parallel()
	look, o := reader(t, watching)
	task := func(id string) *store.Task { return &store.Task{Subject: graph.Subject{Binding: id}} }
	pods, nodes, none := hook.RoughSize([]hook.Item{podItem}), hook.RoughSize([]hook.Item{nodeItem}), hook.RoughSize(nil)
	all := pods + nodes + none // pods, nodes and other, which have the same group
	for _, c := range []struct {
		last, next string
		want       int
	}{
		{"", "maps", 0},
		{"", "deleted", 0},
		{"", "with", pods},
		{"", "secrets", nodes},
		{"", "pods", all},
		{"secrets", "secrets", nodes},
		{"pods", "secrets", nodes},
		{"deleted", "pods", all},
		{"often", "with", pods},
		{"pods", "nodes", 0}, // replaces an element with the same snapshots
	} {
		var last *store.Task
		if c.last != "" {
			last = task(c.last)
		}
		if got := look.Added(last, task(c.next)); got != c.want {
			t.Errorf("%s after %q: %d bytes, want %d", c.next, c.last, got, c.want)
		}
	}
	if diff := cmp.Diff(map[string]int{"pods": 1, "nodes": 1, "other": 1}, o.reads); diff != "" {
		t.Errorf("reads of each snapshot (-want +got):\n%s", diff)
	}
}

// The limit of a batch is 8 MiB.
func TestATaskWithAnIncompleteSnapshotExceedsTheLimitOfABatch(t *testing.T) {
	t.Parallel()
	for id, exceeds := range map[string]bool{"maps": false, "with": false, "secrets": true, "pods": true} {
		look, o := reader(t, watching)
		o.incomplete["nodes"] = true
		task := &store.Task{ID: store.ID{Epoch: 2}, Subject: graph.Subject{Binding: id}}
		if got := look.Added(nil, task); (got > 8<<20) != exceeds {
			t.Errorf("binding %s: %d bytes, exceeds the limit: want %t", id, got, exceeds)
		}
	}
}

func TestAnEventOfAnEarlierConfigurationAddsItsObjectFromTheSnapshot(t *testing.T) {
	t.Parallel()
	const config = `{"configVersion": "v1", "kubernetes": [{"name": "secrets", "kind": "Secret"}]}`
	large := &kube.Object{Name: "a", UID: "1", Raw: json.RawMessage(`{"a":"` + strings.Repeat("x", 1000) + `"}`)}
	event := &store.Task{
		ID: store.ID{Epoch: 1, N: 1}, Subject: graph.Subject{Binding: "secrets"}, Object: &store.ObjectRef{Event: hook.Modified, Name: "a", UID: "1"},
	}
	look, o := reader(t, config)
	o.of["secrets"] = []*kube.Object{large}
	if got, want := look.Added(nil, event), hook.RoughSize([]hook.Item{{Object: large.Raw}}); got != want {
		t.Errorf("the event adds %d bytes, want %d", got, want)
	}
	look, o = reader(t, config)
	o.incomplete["secrets"] = true
	if got := look.Added(nil, event); got <= 8<<20 {
		t.Errorf("the event adds %d bytes before the snapshot is complete", got)
	}
}

func TestAddedSnapshotsOfAGroupReplaceThoseOfTheElementBefore(t *testing.T) {
	t.Parallel()
	look, _ := reader(t, `{"configVersion": "v1", "kubernetes": [{"name": "pods", "kind": "Pod"}, {"name": "nodes", "kind": "Node"}], "schedule": [
		{"name": "large", "crontab": "* * * * *", "group": "g", "includeSnapshotsFrom": ["pods", "nodes"]},
		{"name": "small", "crontab": "* * * * *", "group": "g", "includeSnapshotsFrom": ["nodes"]}]}`)
	large, small := &store.Task{Subject: graph.Subject{Binding: "large"}}, &store.Task{Subject: graph.Subject{Binding: "small"}}
	pods := look.Added(nil, large) - look.Added(nil, small)
	if got := []int{look.Added(large, small), look.Added(small, large)}; pods <= 0 || got[0] != -pods || got[1] != pods {
		t.Errorf("the changes of the size are %d, want %d and %d", got, -pods, pods)
	}
}

func TestBindingsThatTheHookHasNoMoreAreGone(t *testing.T) {
	t.Parallel()
	look, _ := reader(t, watching)
	_, _, synchronization := look.Synchronization("old")
	_, event := look.Event(&store.Task{Subject: graph.Subject{Binding: "old"}})
	_, _, review := look.Reviewed(hook.TypeValidating, "old")
	for what, err := range map[string]error{"Synchronization": synchronization, "event": event, "review": review} {
		if !errors.Is(err, hook.ErrGone) || !strings.Contains(err.Error(), `binding "old" of hook m/hooks/h`) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

func TestReviewNamesItsBindingAndSnapshots(t *testing.T) {
	t.Parallel()
	const rules = `"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]`
	look, _ := reader(t, `{"configVersion": "v1", "kubernetes": [{"name": "pods", "kind": "Pod"}],
		"kubernetesValidating": [{"name": "a.example.com", "includeSnapshotsFrom": ["pods"], `+rules+`}],
		"kubernetesMutating": [{"name": "b.example.com", `+rules+`}],
		"kubernetesCustomResourceConversion": [{"name": "c", "crdName": "crons.example.com", "includeSnapshotsFrom": ["pods"],
			"conversions": [{"fromVersion": "v1", "toVersion": "v2"}]}]}`)
	for _, c := range []struct {
		asked   hook.Type
		id      string
		include []string
	}{
		{hook.TypeValidating, "a.example.com", []string{"pods"}},
		{hook.TypeMutating, "b.example.com", nil},
		{hook.TypeConversion, "c", []string{"pods"}},
	} {
		name, include, err := look.Reviewed(c.asked, c.id)
		if diff := cmp.Diff(c.include, include); diff != "" || err != nil || name != c.id {
			t.Errorf("%s: name %q, error %v, snapshots (-want +got):\n%s", c.id, name, err, diff)
		}
	}
}
