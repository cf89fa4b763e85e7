package triggers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A shownObject is an object as the events of a binding have shown it.
type shownObject struct{ UID, Label string }

// A modelCluster is a cluster of pods. For each binding, it has the objects as the events of the binding have shown
// them. A binding must never receive an event that contradicts its earlier events.
type modelCluster struct {
	t       *rapid.T
	r       *receiver
	pods    map[string]*kube.Object
	version int
	shown   map[string]map[string]shownObject // by owner and name
	fails   int                               // number of commits that succeed before one is rejected; if it is negative, none is rejected
	most    int                               // maximum number of events in a transaction; at least 2, because a replaced object can cause two events
}

func newModelCluster(t *rapid.T, settings map[string]string) *modelCluster {
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &modelCluster{t: t, pods: map[string]*kube.Object{}, shown: map[string]map[string]shownObject{}, fails: -1}
	owners := slices.Sorted(maps.Keys(settings))
	c.r = &receiver{
		db: db, isFollowed: func(kube.View) bool { return true },
		attached: func(text string) (graph.Subject, bool) { return attachedAs(owners, text) },
		engine: raiserFunc(func(tx *store.Tx, events ...workflow.Event) error {
			if len(events) > c.most {
				return store.ErrTooLarge
			}
			tx.OnCommit(func() {
				for i := range events {
					c.event(&events[i])
				}
			})
			return nil
		}),
	}
	for name, text := range settings {
		s := SubjectOf(name)
		config := `{"name":"pods","kind":"Pod","executeHookOnEvent":["Added","Modified","Deleted"]` + text + `}`
		if err := db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.BindingKey(s.Module, s.Hook, s.Binding), store.Binding{Kind: store.Kubernetes, Config: json.RawMessage(config), Queue: "q"})
		}); err != nil {
			t.Fatal(err)
		}
		c.shown[name] = map[string]shownObject{}
	}
	db.Guard(func() error {
		if c.fails--; c.fails == -1 {
			return errors.New("the process ends")
		}
		return nil
	})
	return c
}

// event applies ev to the objects that earlier events have shown to its binding. The test fails if ev cannot follow
// the earlier events.
func (c *modelCluster) event(ev *workflow.Event) {
	_, result, _ := bytes.Cut(ev.Payload, []byte(`"filterResult":"`))
	label := string(result[:min(len(result), 1)]) // the event of a deletion can lack the filter result
	shown, name := c.shown[owner(ev.Subject)], ev.Object.Name
	before, known := shown[name]
	now := shownObject{ev.Object.UID, label}
	switch change := kube.ChangeType(ev.Object.Event); change {
	case kube.Deleted:
		delete(shown, name)
		c.check(known, ev, before, now)
	default:
		shown[name] = now
		modified := known && before.UID == now.UID && before.Label != now.Label
		c.check(change == kube.Added && !known || change == kube.Modified && modified, ev, before, now)
	}
}

func (c *modelCluster) check(ok bool, ev *workflow.Event, before, now shownObject) {
	if !ok {
		c.t.Errorf("%s received %s of %s with %+v, after %+v", ev.Subject.Hook, ev.Object.Event, ev.Object.Name, now, before)
	}
}

// change changes a pod at random, and returns the change as a watch reports it.
func (c *modelCluster) change(what, name, label string) (change kube.Change) {
	c.version++
	o := c.pods[name]
	if what == "delete" && o != nil {
		delete(c.pods, name)
		gone := *o
		gone.ResourceVersion = fmt.Sprint(c.version)
		return kube.Change{Type: kube.Deleted, Object: &gone}
	}
	uid := fmt.Sprint("uid-", c.version)
	change.Type = kube.Added
	if o != nil && what != "replace" {
		uid, change.Type = o.UID, kube.Modified
	}
	now := &kube.Object{
		Namespace: "ns", Name: name, UID: uid, ResourceVersion: fmt.Sprint(c.version), Checksum: label, FilterResult: json.RawMessage(`"` + label + `"`), Raw: json.RawMessage(`{}`),
	}
	c.pods[name], change.Object = now, now
	return change
}

// list returns the objects of the cluster, sorted by name.
func (c *modelCluster) list() (all []*kube.Object) {
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		all = append(all, c.pods[name])
	}
	return all
}

// baseline records that all objects of the cluster were shown to owners, as a Synchronization shows them.
func (c *modelCluster) baseline(owners ...string) {
	for _, name := range owners {
		c.shown[name] = c.now()
	}
}

// now returns the objects that the cluster has at this moment.
func (c *modelCluster) now() map[string]shownObject {
	all := map[string]shownObject{}
	for name, o := range c.pods {
		all[name] = shownObject{o.UID, o.Checksum}
	}
	return all
}

// TestTheEventsOfABindingLeadFromItsFirstListToTheCluster changes a cluster at random. A watch delivers some changes in
// batches, and misses others until it lists the objects again. A transaction has room for a few events only. The
// process ends at random commits, and in the next process, one of the two bindings joins later. The events of each
// binding must be in an order in which they can happen, and must lead to the state of the cluster.
func TestTheEventsOfABindingLeadFromItsFirstListToTheCluster(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{"both want the same": "", "one wants full objects": `,"keepFullObjectsInMemory":true`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { checkModel(t, settings) })
		})
	}
}

func checkModel(t *rapid.T, settings string) {
	both := append([]string{late}, us...)
	c := newModelCluster(t, map[string]string{us[0]: "", late: settings})
	defer c.r.db.Close()
	c.most = rapid.IntRange(2, 5).Draw(t, "events in a transaction")
	changes := rapid.Custom(func(t *rapid.T) func() kube.Change {
		what := rapid.SampledFrom([]string{"set", "set", "set", "replace", "delete"}).Draw(t, "what")
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		label := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "label")
		return func() kube.Change { return c.change(what, name, label) }
	})
	draw := func(what string) (all []kube.Change) {
		for _, make := range rapid.SliceOfN(changes, 1, 4).Draw(t, what) {
			all = append(all, make())
		}
		return all
	}
	draw("before the first list")
	listed := func(cause kube.Cause, owners []string) error {
		return c.r.Listed(t.Context(), kube.List{View: label, Cause: cause, Owners: owners, Version: fmt.Sprint(c.version), Objects: c.list()})
	}
	if err := listed(kube.First, both); err != nil {
		t.Fatal(err)
	}
	c.baseline(both...)
	owners := both
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
			c.fails = rapid.IntRange(0, 3).Draw(t, "commits")
		}
		var err error
		switch step := rapid.SampledFrom([]string{"batch", "batch", "batch", "gap", "again", "join"}).Draw(t, "step"); step {
		case "gap":
			draw("missed")
			err = listed(kube.Gap, owners)
		case "again":
			err = listed(kube.Periodic, owners)
		case "join":
			if err = listed(kube.Resumed, both); err == nil {
				owners = both
			}
		default:
			batch := draw("batch")
			for i := range batch {
				batch[i].Filter, batch[i].Owners = label.Filter, owners
				if len(owners) < len(both) { // no joined binding wants full objects
					part := *batch[i].Object
					part.Raw, batch[i].Object = nil, &part
				}
			}
			err = c.r.Changed(t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: fmt.Sprint(c.version), Changes: batch})
		}
		if c.fails = -1; err == nil {
			continue
		}
		owners = us // the operator starts again after the error, and the binding late has not joined yet
		if err := listed(kube.Gap, owners); err != nil {
			t.Fatal(err)
		}
	}
	if err := listed(kube.Resumed, both); err != nil {
		t.Fatal(err)
	}
	for _, name := range both {
		if diff := cmp.Diff(c.now(), c.shown[name]); diff != "" {
			t.Errorf("%s has received another state (-cluster +received):\n%s", SubjectOf(name).Hook, diff)
		}
		if behind, err := c.r.Behind(t.Context(), label, both); err != nil || behind {
			t.Errorf("after the last list, owners are behind: %t, error %v", behind, err)
		}
	}
	if version, err := c.r.Stored(t.Context(), label); err != nil || version != fmt.Sprint(c.version) {
		t.Errorf("a watch would continue from version %q, want %d, error %v", version, c.version, err)
	}
}
