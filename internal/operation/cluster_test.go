package operation_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// fixture has an executor and a client, the field objects. With this client, the test itself reads and writes objects
// in the namespace. These writes have another field manager than the writes of the executor.
type fixture struct {
	t         *testing.T
	executor  *operation.Executor
	objects   dynamic.Interface
	namespace string

	noted  *operation.Mark      // the last mark
	noting func(operation.Mark) // called for each mark
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := cluster.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &fixture{t: t, objects: client.Dynamic(), namespace: c.Namespace(t)}
	s.executor = s.executorOf(c.Config())
	return s
}

// executorOf returns an executor that sends its requests with config.
func (s *fixture) executorOf(config *rest.Config) *operation.Executor {
	s.t.Helper()
	client, err := kube.NewClient(config)
	if err != nil {
		s.t.Fatal(err)
	}
	kinds := kube.NewKinds(client, kube.Observer{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kinds.Run(ctx) })
	s.t.Cleanup(func() { cancel(); running.Wait() })
	executor, err := operation.NewExecutor(client, kinds, operation.Options{Timeout: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	operation.Impatient(executor, 90*time.Second) // the default limits are too short for a slow machine
	return executor
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// parse parses text, which must contain one operation. It replaces NS in text by the name of the
// namespace.
func (s *fixture) parse(text string) operation.Operation {
	s.t.Helper()
	all, err := operation.Parse([]byte(strings.ReplaceAll(text, "NS", s.namespace)))
	if err != nil {
		s.t.Fatal(err)
	}
	if len(all) != 1 {
		s.t.Fatalf("%d operations in %s", len(all), text)
	}
	return all[0]
}

// attempt returns a first attempt at an operation. Its last mark is stored in s.noted.
func (s *fixture) attempt() operation.Attempt {
	return operation.Attempt{Since: time.Now(), Note: func(m operation.Mark) error {
		s.noted = &m
		if s.noting != nil {
			s.noting(m)
		}
		return nil
	}}
}

// resend returns a second attempt at an operation. The first attempt stored mark and was then
// interrupted.
func (s *fixture) resend(mark *operation.Mark) operation.Attempt {
	a := s.attempt()
	a.Resumed, a.Mark = true, mark
	if mark != nil { // the copy is encoded and decoded, like a mark in the store
		text, err := json.Marshal(mark)
		if err != nil {
			s.t.Fatal(err)
		}
		a.Mark = new(operation.Mark)
		if err := json.Unmarshal(text, a.Mark); err != nil {
			s.t.Fatal(err)
		}
	}
	return a
}

func (s *fixture) try(text string, a operation.Attempt) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // not from t.Context, because cleanup functions call try, and t.Context is canceled before they run
	defer cancel()
	return s.executor.Do(ctx, s.parse(text), a)
}

func (s *fixture) do(text string) {
	s.t.Helper()
	if err := s.try(text, s.attempt()); err != nil {
		s.t.Fatalf("%s\n%v", text, err)
	}
}

// refuses executes the operation in text, and fails the test unless the operation returns a final error that contains
// want.
func (s *fixture) refuses(text string, a operation.Attempt, want string) {
	s.t.Helper()
	err := s.try(text, a)
	if err == nil || !operation.IsRefused(err) || !strings.Contains(err.Error(), want) {
		s.t.Errorf("%s\nwant a refusal that says %q, got %v", text, want, err)
	}
}

// made creates an object with another field manager than the operator's.
func (s *fixture) made(resource schema.GroupVersionResource, text string) *unstructured.Unstructured {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		s.t.Fatal(err)
	}
	object, err := s.objects.Resource(resource).Namespace(s.namespace).Create(context.Background(), object, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		s.t.Fatal(err)
	}
	return object
}

func (s *fixture) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	s.t.Helper()
	object, err := s.objects.Resource(resource).Namespace(s.namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return object
}

func (s *fixture) gone(resource schema.GroupVersionResource, name string) bool {
	s.t.Helper()
	_, err := s.objects.Resource(resource).Namespace(s.namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	return err != nil
}

// patch changes an object with another field manager than the operator's.
func (s *fixture) patch(resource schema.GroupVersionResource, name, patch string) {
	s.t.Helper()
	_, err := s.objects.Resource(resource).Namespace(s.namespace).
		Patch(context.Background(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		s.t.Fatal(err)
	}
}

// shows fails the test if the data of a ConfigMap is not want.
func (s *fixture) shows(name, want string) {
	s.t.Helper()
	text, err := json.Marshal(s.get(configMaps, name).Object["data"])
	if err != nil {
		s.t.Fatal(err)
	}
	if string(text) != want {
		s.t.Errorf("ConfigMap %s has the data %s, want %s", name, text, want)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(90 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

const configMapA = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}`
