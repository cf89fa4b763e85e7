package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

type noStep struct{}

func (noStep) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

func (noStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

// A queued is a receiver whose events become tasks in a real engine. The engine is not started, so
// the tasks stay in the store.
type queued struct {
	*receiver
	t      *testing.T
	owners []string
	left   []string // events that were delivered without the object
}

func newQueued(t *testing.T, bindings int) *queued {
	t.Helper()
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			steps[n.ID] = noStep{}
		}
	}
	db := storetest.Memory(t)
	engine, err := workflow.New(db, workflow.Observer{}, workflow.Implementation{Graph: lifecycle.Graph, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	q := &queued{t: t}
	q.receiver = &receiver{
		db: db, engine: engine, isFollowed: func(kube.View) bool { return true }, attached: func(text string) (graph.Subject, bool) { return attachedAs(q.owners, text) },
		reduced: func(to graph.Subject, o *kube.Object, _ int) { q.left = append(q.left, to.Hook+" "+o.Name) },
	}
	if err := db.Update(func(tx *store.Tx) error {
		for i := range bindings {
			s := graph.Subject{Module: "m", Hook: fmt.Sprintf("hooks/h%02d", i), Binding: "pods"}
			config := []byte(`{"name":"pods","kind":"Pod","executeHookOnEvent":["Added","Modified","Deleted"],"keepFullObjectsInMemory":true}`)
			if err := store.Save(tx, store.BindingKey(s.Module, s.Hook, s.Binding), store.Binding{Kind: store.Kubernetes, Config: config, Queue: "q"}); err != nil {
				return err
			}
			q.owners = append(q.owners, owner(s))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return q
}

// delivered returns the number of tasks in the store for each hook and event.
func (q *queued) delivered() map[string]int {
	q.t.Helper()
	n := map[string]int{}
	if err := q.db.View(func(tx *store.Tx) error {
		for t, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			if err := store.LoadPayload(tx, t); err != nil {
				return err
			}
			n[t.Subject.Hook+" "+t.Object.Event+" "+t.Object.Name+"@"+t.Object.ResourceVersion]++
		}
		return nil
	}); err != nil {
		q.t.Fatal(err)
	}
	return n
}

// want checks that each hook has received exactly these events, each once.
func (q *queued) want(events ...string) {
	q.t.Helper()
	got := q.delivered()
	for i := range q.owners {
		for _, event := range events {
			name := fmt.Sprintf("hooks/h%02d %s", i, event)
			if got[name] != 1 {
				q.t.Errorf("%s was delivered %d times", name, got[name])
			}
			delete(got, name)
		}
	}
	for name, n := range got {
		q.t.Errorf("%s was delivered %d times and not expected", name, n)
	}
}

// large returns a pod whose data has the given size in bytes.
func large(name string, version, size int, fill string) *kube.Object {
	return &kube.Object{
		Namespace: "ns", Name: name, UID: "uid-" + name, ResourceVersion: fmt.Sprint(version), Checksum: fmt.Sprint(fill, version),
		Raw: json.RawMessage(`{"metadata":{"name":"` + name + `"},"data":"` + strings.Repeat(fill, size/len(fill)) + `"}`),
	}
}

func (q *queued) listed(cause kube.Cause, version string, objects ...*kube.Object) error {
	return q.Listed(q.t.Context(), kube.List{View: label, Cause: cause, Owners: q.owners, Version: version, Objects: objects})
}

func (q *queued) changed(version string, changes ...kube.Change) error {
	for i := range changes {
		changes[i].Filter, changes[i].Owners = label.Filter, q.owners
	}
	return q.Changed(q.t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: version, Changes: changes})
}

func TestManyLargeObjectsThatChangedDuringAGapAreDelivered(t *testing.T) {
	t.Parallel()
	q := newQueued(t, 1)
	var before, after []*kube.Object
	var want []string
	for i := range 500 {
		before = append(before, large(fmt.Sprintf("p%03d", i), 1, 10, "x"))
		after = append(after, large(fmt.Sprintf("p%03d", i), 2, 40<<10, "y"))
		want = append(want, fmt.Sprintf("Modified p%03d@2", i))
	}
	if err := errors.Join(q.listed(kube.First, "10", before...), q.listed(kube.Gap, "20", after...)); err != nil {
		t.Fatal(err)
	}
	q.want(want...)
}

func TestALargeBatchThatManyBindingsSeeIsDelivered(t *testing.T) {
	t.Parallel()
	q := newQueued(t, 10)
	if err := q.listed(kube.First, "1"); err != nil {
		t.Fatal(err)
	}
	var changes []kube.Change
	var want []string
	for i := range 2 {
		changes = append(changes, kube.Change{Type: kube.Added, Object: large(fmt.Sprint("p", i), 2, 1<<20, "x")})
		want = append(want, fmt.Sprintf("Added p%d@2", i))
	}
	if err := q.changed("3", changes...); err != nil {
		t.Fatal(err)
	}
	q.want(want...)
}

func TestAnInterruptedDeliveryGoesOnWithTheBindingsThatAreBehind(t *testing.T) {
	t.Parallel()
	for claim, c := range map[string]struct {
		before []*kube.Object
		change kube.Change // the delivery of this change is interrupted, and then repeated
		then   kube.Change // if set, this change is delivered instead of a repetition
		first  string      // events for the owners that are reached before the interruption
		rest   string      // events for the other owners
	}{
		"an addition is delivered once to each": {
			change: kube.Change{Type: kube.Added, Object: large("p", 2, 3<<20, "x")},
			first:  "Added p@2", rest: "Added p@2",
		},
		"a change is delivered once to each": {
			before: []*kube.Object{large("p", 1, 10, "x")},
			change: kube.Change{Type: kube.Modified, Object: large("p", 2, 3<<20, "x")},
			first:  "Modified p@2", rest: "Modified p@2",
		},
		"a deletion is delivered once to each": {
			before: []*kube.Object{large("p", 1, 10, "x")},
			change: kube.Change{Type: kube.Deleted, Object: large("p", 2, 3<<20, "x")},
			first:  "Deleted p@2", rest: "Deleted p@2",
		},
		"what was deleted since was never added for the others": {
			change: kube.Change{Type: kube.Added, Object: large("p", 2, 3<<20, "x")},
			then:   kube.Change{Type: kube.Deleted, Object: large("p", 3, 10, "x")},
			first:  "Added p@2 Deleted p@3",
		},
		"what changed since is added in its new state for the others": {
			change: kube.Change{Type: kube.Added, Object: large("p", 2, 3<<20, "x")},
			then:   kube.Change{Type: kube.Modified, Object: large("p", 3, 10, "x")},
			first:  "Added p@2 Modified p@3", rest: "Added p@3",
		},
		"what came back since is deleted and added for those who know of the deletion": {
			before: []*kube.Object{large("p", 1, 10, "x")},
			change: kube.Change{Type: kube.Deleted, Object: large("p", 2, 3<<20, "x")},
			then:   kube.Change{Type: kube.Added, Object: large("p", 3, 10, "x")},
			first:  "Deleted p@2 Added p@3", rest: "Modified p@3",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			q := newQueued(t, 10)
			if err := q.listed(kube.First, "1", c.before...); err != nil {
				t.Fatal(err)
			}
			engine, pieces := q.engine, 2
			q.engine = raiserFunc(func(tx *store.Tx, events ...workflow.Event) error {
				if pieces--; pieces < 0 {
					return errors.New("the process ends")
				}
				return engine.Raise(tx, events...)
			})
			if err := q.changed("2", c.change); err == nil {
				t.Fatal("everything was delivered in two pieces")
			}
			q.engine = engine
			delivered := q.delivered()
			if len(delivered) == 0 || len(delivered) == 10 {
				t.Fatalf("%d of 10 hooks received events before the interruption", len(delivered))
			}
			again := c.change
			if c.then.Object != nil {
				again = c.then
			}
			if err := q.changed("3", again); err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for event, n := range q.delivered() {
				hook, what, _ := strings.Cut(event, " ")
				if n != 1 {
					t.Errorf("%s was delivered %d times", event, n)
				}
				got[hook] = append(got[hook], what)
			}
			for i := range 10 {
				hook := fmt.Sprintf("hooks/h%02d", i)
				want := c.rest
				for event := range delivered {
					if strings.HasPrefix(event, hook+" ") {
						want = c.first
					}
				}
				slices.SortFunc(got[hook], func(a, b string) int { return strings.Compare(a[len(a)-1:], b[len(b)-1:]) })
				if got := strings.Join(got[hook], " "); got != want {
					t.Errorf("%s got %q, want %q", hook, got, want)
				}
			}
			if err := q.db.View(func(tx *store.Tx) error {
				record, _, err := store.Load[delivered0](tx, objectKey(cursorKey(label), again.Object))
				if len(record.Behind) > 0 {
					t.Errorf("the cursor still has owners behind: %s", record.Behind)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

type delivered0 struct {
	Behind []json.RawMessage `json:"behind"`
}

func TestAnObjectTooLargeForATransactionIsDeliveredByItsIdentity(t *testing.T) {
	t.Parallel()
	q := newQueued(t, 2)
	if err := q.listed(kube.First, "1"); err != nil {
		t.Fatal(err)
	}
	if err := q.changed("3",
		kube.Change{Type: kube.Added, Object: large("whole", 2, 9<<20, "x")}, // larger than any object that the API server accepts
		kube.Change{Type: kube.Added, Object: large("huge", 2, 20<<20, "x")},
	); err != nil {
		t.Fatal(err)
	}
	q.want("Added whole@2", "Added huge@2")
	if got := strings.Join(q.left, ", "); !strings.Contains(got, "huge") || strings.Contains(got, "whole") {
		t.Errorf("reported as delivered without the object: %s", got)
	}
	if err := q.db.View(func(tx *store.Tx) error {
		for task, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			if err := store.LoadPayload(tx, task); err != nil {
				return err
			}
			if payload := string(task.Payload); task.Object.Name == "huge" &&
				payload != `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"huge","namespace":"ns","uid":"uid-huge"}}}` {
				t.Errorf("the event says %.200s", payload)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
