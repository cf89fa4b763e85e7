package objects

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// A fixture has an executor, and a task with a journal for a hook of the module "web".
type fixture struct {
	t         *testing.T
	db        *store.DB
	client    *kube.Client
	namespace string
	executor  *Executor
	task      workflow.Task
}

// newFixture returns a fixture without a cluster.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, db: storetest.Memory(t)}
	f.executor = New(f.db, nil)
	f.task = workflow.Task{Task: store.Task{ID: store.ID{Epoch: 1, N: 1}, Subject: graph.Subject{Module: "web", Hook: "hook.sh"}}}
	f.update(func(tx *store.Tx) error { return store.Save(tx, store.JournalKey(f.task.ID), workflow.Outcome{}) })
	t.Cleanup(func() { f.update(func(tx *store.Tx) error { store.DropJournal(tx, f.task.ID); return nil }) })
	return f
}

// newClusterFixture returns a fixture with an API server and a new namespace.
func newClusterFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	c := cluster.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	kinds := kube.NewKinds(client, kube.Observer{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kinds.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	requests, err := operation.NewExecutor(client, kinds, operation.Options{Timeout: time.Minute}) // these tests do not repeat a request that times out
	if err != nil {
		t.Fatal(err)
	}
	f.client, f.namespace, f.executor = client, c.Namespace(t), New(f.db, requests)
	return f
}

func (f *fixture) update(fn func(*store.Tx) error) {
	f.t.Helper()
	if err := f.db.Update(fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) saveRelease(r store.Release) {
	f.t.Helper()
	f.update(func(tx *store.Tx) error { return store.Save(tx, store.ReleaseKey("web"), r) })
}

// removed returns the names of the objects that are recorded as removed from the release by hooks.
func (f *fixture) removed() (names []string) {
	f.t.Helper()
	if err := f.db.View(func(tx *store.Tx) error {
		r, _, err := store.Load[store.Release](tx, store.ReleaseKey("web"))
		for _, o := range r.Removed {
			names = append(names, o.Name)
		}
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return names
}

// do carries out the operations in text as effects of the task. It replaces NS in text by the namespace. It returns
// one element for each operation: its error, or nil.
func (f *fixture) do(text string) (errs []error) {
	f.t.Helper()
	ops, err := Parse([]byte(strings.ReplaceAll(text, "NS", f.namespace)))
	if err != nil {
		f.t.Fatal(err)
	}
	effects, err := ops.Effects(time.Now(), true)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range effects {
		errs = append(errs, f.executor.Do(f.t.Context(), f.task, e.Data))
	}
	return errs
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func (f *fixture) exists(name string) bool {
	f.t.Helper()
	_, err := f.client.Dynamic().Resource(configMaps).Namespace(f.namespace).Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Fatal(err)
	}
	return err == nil
}

func create(name string) string {
	return `{"operation":"Create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"NS","name":"` + name + `"}}}`
}

func TestARejectedOperationDoesNotStopTheOnesAfterIt(t *testing.T) {
	t.Parallel()
	f := newClusterFixture(t)
	errs := f.do(create("a") + create("a") + create("b"))
	if errs[0] != nil || errs[1] != nil {
		t.Errorf("errors before the last operation: %v", errs[:2])
	}
	if err := errs[2]; err == nil || !strings.HasPrefix(err.Error(), "$KUBERNETES_PATCH_PATH: operation 2 of 3 (Create ConfigMap ") {
		t.Errorf("the last operation returned %v", err)
	}
	if !f.exists("b") {
		t.Error("b was not created")
	}
}

func TestADeletedObjectOfTheReleaseIsNotedAsRemoved(t *testing.T) {
	t.Parallel()
	f := newClusterFixture(t)
	cluster.Start(t).AwaitGarbageCollector(t, f.namespace)
	f.saveRelease(store.Release{Objects: []store.Object{{APIVersion: "v1", Kind: "ConfigMap", Namespace: f.namespace, Name: "own"}}})
	remove := func(name string) string {
		return `{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"` + name + `"}`
	}
	ops := create("own") + create("other") + remove("own") + remove("other") + remove("missing")
	err := errors.Join(f.do(ops)...)
	for attempt := 1; err != nil && attempt < 5; attempt++ { // on a busy machine, the garbage collector can be late
		err = errors.Join(f.do(ops)...) // continues after the operations that succeeded
	}
	if err != nil {
		t.Fatal(err)
	}
	if f.exists("own") || f.exists("other") {
		t.Error("an object was not deleted")
	}
	if d := cmp.Diff([]string{"own"}, f.removed()); d != "" {
		t.Errorf("removed objects of the release (-want +got):\n%s", d)
	}
}

func TestADeletionThatFoundNoObjectDoesNotDeleteANewerOneAfterACrash(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"only": "", "last": create("first")} {
		f := newClusterFixture(t)
		ops := before + `{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"` + name + `"}`
		if err := errors.Join(f.do(ops)...); err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
		if _, err := f.client.Dynamic().Resource(configMaps).Namespace(f.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.task.Resumed = true
		if err := errors.Join(f.do(ops)...); err != nil {
			t.Fatal(err)
		}
		if !f.exists(name) {
			t.Errorf("the deletion, which is the %s operation, deleted an object that is newer than it", name)
		}
	}
}

func TestOperationsOfAReviewAreNotNoted(t *testing.T) {
	t.Parallel()
	f := newClusterFixture(t)
	ops, err := Parse([]byte(strings.ReplaceAll(create("a")+create("a"), "NS", f.namespace)))
	if err != nil {
		t.Fatal(err)
	}
	effects, err := ops.Effects(time.Now(), true)
	if err != nil {
		t.Fatal(err)
	}
	err = f.executor.DoNow(t.Context(), "web", effects)
	if err == nil || !strings.Contains(err.Error(), "operation 2 of 2") {
		t.Errorf("the second creation returned %v", err)
	}
	if !f.exists("a") {
		t.Error("a was not created")
	}
	if err := f.db.View(func(tx *store.Tx) error {
		_, noted, err := store.LoadNote[note](tx, f.task.ID)
		if noted {
			t.Error("a note was written")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// The fixture has no cluster, so the test would fail if the executor sent a request.
func TestASettledOperationIsNotSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.update(func(tx *store.Tx) error {
		return store.SaveNote(tx, f.task.ID, note{Settled: 2, Refused: []string{"operation 1 of 2: exists"}, More: 1})
	})
	errs := f.do(create("a") + create("b"))
	if errs[0] != nil {
		t.Error(errs[0])
	}
	if want := "$KUBERNETES_PATCH_PATH: operation 1 of 2: exists; and 1 more"; errs[1] == nil || errs[1].Error() != want {
		t.Errorf("the last operation returned %v, want %s", errs[1], want)
	}
}

func TestAnUnreadableEffectIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.executor.Do(t.Context(), f.task, json.RawMessage(`{`)); err == nil {
		t.Error("no error")
	}
}

func TestARejectedDeletionIsReverted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web"}
	served := store.Object{APIVersion: "apps/v1beta1", Kind: "Deployment", Namespace: "prod", Name: "web"}
	other := store.Object{APIVersion: "v1", Kind: "Service", Namespace: "prod", Name: "web"}
	f.saveRelease(store.Release{Objects: []store.Object{object}})
	for _, change := range []struct {
		what    string
		do      func(tx *store.Tx, module string, o store.Object) error
		object  store.Object
		removed []string
	}{
		{"deletion of another object", f.executor.noteRemoved, other, nil},
		{"deletion", f.executor.noteRemoved, served, []string{"web"}},
		{"second deletion", f.executor.noteRemoved, object, []string{"web"}},
		{"rejected deletion of another object", f.executor.revertRemoved, other, []string{"web"}},
		{"rejected deletion", f.executor.revertRemoved, served, nil},
		{"second rejected deletion", f.executor.revertRemoved, served, nil},
	} {
		f.update(func(tx *store.Tx) error { return change.do(tx, "web", change.object) })
		if d := cmp.Diff(change.removed, f.removed()); d != "" {
			t.Errorf("%s: removed objects (-want +got):\n%s", change.what, d)
		}
	}
}
