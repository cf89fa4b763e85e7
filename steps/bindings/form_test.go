package bindings_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

// earlierEvent attaches the binding pods with the configuration before, and then with the configuration now. It returns
// the element for an event that was added between. The snapshot of the binding has the Pods x/a with the uid 1 and x/b
// with the uid 2. The event is about the given Pod in the namespace x.
func earlierEvent(t *testing.T, before, now string, pod store.ObjectRef) (hook.Element, error) {
	t.Helper()
	db := storetest.Memory(t)
	pod.Kind, pod.Namespace, pod.ResourceVersion = "Pod", "x", "5"
	task := &store.Task{
		Subject: graph.Subject{Module: "m", Hook: "hooks/h", Binding: "pods"},
		Payload: json.RawMessage(`{"object":{"old":1},"filterResult":"old"}`),
		Object:  &pod,
	}
	if strings.Contains(before, "keepFullObjectsInMemory") {
		task.Payload = json.RawMessage(`{"filterResult":"old"}`)
	}
	config := func(rest string) string {
		return `{"configVersion": "v1", "kubernetes": [{"name": "pods", ` + rest + `}]}`
	}
	attach(t, db, config(before))
	update(t, db, func(tx *store.Tx) error {
		task.ID = store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
		return nil
	})
	attach(t, db, config(now))
	var attached map[string]store.Binding
	if err := db.View(func(tx *store.Tx) (err error) {
		attached, err = store.LoadBindings(tx, "m", "hooks/h")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	parsed, err := hook.Load(hook.Module, []byte(config(now)))
	if err != nil {
		t.Fatal(err)
	}
	var all bindings.Attached
	all.Connect(objects{
		of: map[string][]*kube.Object{"pods": {
			{Namespace: "x", Name: "a", UID: "1", Raw: json.RawMessage(`{"new":1}`), FilterResult: json.RawMessage(`"new"`)},
			{Namespace: "x", Name: "b", UID: "2", Raw: json.RawMessage(`{"new":2}`), FilterResult: json.RawMessage(`"other"`)},
		}},
		reads: map[string]int{},
	})
	return all.Reader("m", "hooks/h", parsed, attached).Event(task)
}

func TestEventOfAnEarlierConfigurationHasTheFormOfTheCurrentOne(t *testing.T) {
	t.Parallel()
	const (
		filtered = `"kind": "Pod", "jqFilter": ".a"`
		slim     = filtered + `, "keepFullObjectsInMemory": false`
		labeled  = filtered + `, "labelSelector": {"matchLabels": {"a": "b"}}`
	)
	item := func(object, result string) hook.Item {
		var item hook.Item
		if object != "" {
			item.Object = json.RawMessage(object)
		}
		if result != "" {
			item.FilterResult = json.RawMessage(result)
		}
		return item
	}
	stored := item(`{"old":1}`, `"old"`)
	for name, c := range map[string]struct {
		before, now, event, name, uid string
		want                          hook.Item
		gone                          bool
	}{
		"same configuration":               {filtered, filtered, hook.Modified, "a", "1", stored, false},
		"type of event, still selected":    {filtered, filtered + `, "executeHookOnEvent": ["Modified"]`, hook.Modified, "a", "1", stored, false},
		"other types of events":            {filtered, filtered + `, "executeHookOnEvent": ["Added", "Deleted"]`, hook.Modified, "a", "1", hook.Item{}, true},
		"no types of events":               {filtered, filtered + `, "executeHookOnEvent": []`, hook.Deleted, "c", "3", hook.Item{}, true},
		"other queue":                      {filtered, filtered + `, "queue": "/q"`, hook.Modified, "a", "1", stored, false},
		"other filter, Added":              {slim, `"kind": "Pod", "jqFilter": ".b"`, hook.Added, "b", "2", item(`{"new":2}`, `"other"`), false},
		"other filter, Modified":           {slim, `"kind": "Pod", "jqFilter": ".b"`, hook.Modified, "a", "1", item(`{"new":1}`, `"new"`), false},
		"object does not exist":            {filtered, `"kind": "Pod", "jqFilter": ".b"`, hook.Modified, "c", "3", hook.Item{}, true},
		"object was created again":         {filtered, `"kind": "Pod", "jqFilter": ".b"`, hook.Added, "a", "0", hook.Item{}, true},
		"other filter, Deleted":            {filtered, `"kind": "Pod", "jqFilter": ".b"`, hook.Deleted, "c", "3", item(`{"old":1}`, ""), false},
		"Deleted, and created again":       {filtered, labeled, hook.Deleted, "a", "0", stored, false},
		"Deleted, without full objects":    {filtered, slim, hook.Deleted, "c", "3", item("", `"old"`), false},
		"Deleted, with full objects":       {slim, filtered, hook.Deleted, "c", "3", item(`{"kind":"Pod","metadata":{"name":"c","namespace":"x","uid":"3"}}`, `"old"`), false},
		"other selector, Modified":         {filtered, labeled, hook.Modified, "a", "1", item(`{"new":1}`, `"new"`), false},
		"other selector, Deleted":          {filtered, labeled, hook.Deleted, "c", "3", stored, false},
		"other selector, still selected":   {filtered, labeled, hook.Deleted, "a", "1", hook.Item{}, true},
		"other kind, Modified":             {filtered, `"kind": "Secret"`, hook.Modified, "a", "1", hook.Item{}, true},
		"other kind, Deleted":              {filtered, `"kind": "Secret"`, hook.Deleted, "c", "3", hook.Item{}, true},
		"other group":                      {`"kind": "Pod", "apiVersion": "v1"`, `"kind": "Pod", "apiVersion": "a.b/v1"`, hook.Deleted, "c", "3", hook.Item{}, true},
		"other version, Deleted":           {`"kind": "Pod", "apiVersion": "a.b/v1"`, `"kind": "Pod", "apiVersion": "a.b/v2"`, hook.Deleted, "c", "3", stored, false},
		"same kind in other case, Deleted": {filtered, `"kind": "pod", "jqFilter": ".a"`, hook.Deleted, "c", "3", stored, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := earlierEvent(t, c.before, c.now, store.ObjectRef{Event: c.event, Name: c.name, UID: c.uid})
			if c.gone != errors.Is(err, hook.ErrGone) || !c.gone && err != nil {
				t.Errorf("error %v; the event must be dropped: %t", err, c.gone)
			}
			if diff := cmp.Diff(c.want, got.Item); diff != "" {
				t.Errorf("item (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACoalescedEventHasATypeThatItsBindingSelects(t *testing.T) {
	t.Parallel()
	pod := store.ObjectRef{Event: hook.Added, Coalesced: hook.Modified, Name: "a", UID: "1"}
	for events, want := range map[string]string{ // "" if the event is dropped
		`["Added", "Modified", "Deleted"]`: hook.Added,
		`["Added"]`:                        hook.Added,
		`["Modified", "Deleted"]`:          hook.Modified,
		`["Deleted"]`:                      "",
	} {
		got, err := earlierEvent(t, `"kind": "Pod"`, `"kind": "Pod", "executeHookOnEvent": `+events, pod)
		if (want == "") != errors.Is(err, hook.ErrGone) || want != "" && err != nil || got.WatchEvent != want {
			t.Errorf("%s: the type is %q, want %q; error %v", events, got.WatchEvent, want, err)
		}
	}
}
