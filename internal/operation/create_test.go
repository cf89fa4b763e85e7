package operation_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
)

func TestCreateMakesAnObjectOnceAndRefusesOneThatExists(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	create := `{"operation":"Create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"NS"},"data":{"k":"v"}}}`
	s.do(create)
	s.shows("a", `{"k":"v"}`)
	s.refuses(create, s.attempt(), "exists already")
	s.made(configMaps, strings.ReplaceAll(configMapA, "name: a", "name: b"))
	s.refuses(strings.ReplaceAll(create, `"a"`, `"b"`), s.attempt(), "exists already")
	if s.noted != nil {
		t.Errorf("it noted %+v", s.noted)
	}
}

func TestCreateDoneBeforeACrashIsRecognised(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	create := `{"operation":"Create","object":{"kind":"secret","metadata":{"name":"a","namespace":"NS"},"stringData":{"k":"v"},"data":{"d":"eA=="}}}`
	s.do(create)
	if err := s.try(create, s.resend(nil)); err != nil {
		t.Errorf("the object that the first attempt created: %v", err)
	}
	s.refuses(strings.ReplaceAll(create, `"v"`, `"w"`), s.resend(nil), "exists already")
	later := s.resend(nil)
	later.Since = time.Now().Add(5 * time.Minute)
	s.refuses(create, later, "exists already")
	s.made(configMaps, configMapA)
	s.refuses(`{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"name":"a","namespace":"NS"},"data":{"k":"v"}}}`, s.resend(nil), "exists already")
	if err := s.try(strings.ReplaceAll(create, `"a"`, `"b"`), s.resend(nil)); err != nil {
		t.Errorf("an object that does not exist yet: %v", err)
	}
}

// TestCreateOfAPodDoneBeforeACrashIsRecognised creates a Pod. The API server adds tolerations to it.
func TestCreateOfAPodDoneBeforeACrashIsRecognised(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	create := `{"operation":"Create","object":{"kind":"Pod","metadata":{"name":"a","namespace":"NS"},"spec":{
		"tolerations":[{"key":"k","operator":"Exists"}],"containers":[{"name":"main","image":"example.com/main"}]}}}`
	s.do(create)
	tolerations, _, err := unstructured.NestedSlice(s.get(pods, "a").Object, "spec", "tolerations")
	if err != nil || len(tolerations) < 2 {
		t.Fatalf("the API server has added no toleration: %v (%v)", tolerations, err)
	}
	if err := s.try(create, s.resend(nil)); err != nil {
		t.Error(err)
	}
	s.refuses(strings.ReplaceAll(create, "/main", "/other"), s.resend(nil), "exists already")
}

func TestCreateOrUpdateMergesIntoWhatExistsAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	apply := `{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"NS","creationTimestamp":null},"data":{"k":"new","old":null}}}`
	s.do(apply)
	s.shows("a", `{"k":"new"}`)
	s.made(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, annotations: {theirs: "1"}}, data: {k: v, old: x, theirs: z}}`)
	apply = strings.ReplaceAll(apply, `"a"`, `"b"`)
	s.do(apply)
	s.shows("b", `{"k":"new","theirs":"z"}`)
	b := s.get(configMaps, "b")
	if b.GetAnnotations()["theirs"] != "1" {
		t.Errorf("annotations %v", b.GetAnnotations())
	}
	s.do(apply)
	if after := s.get(configMaps, "b"); after.GetResourceVersion() != b.GetResourceVersion() {
		t.Error("an object without a difference was written again")
	}
}

func TestCreateIfNotExistsLeavesWhatExists(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	create := `{"operation":"CreateIfNotExists","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"NS"},"data":{"k":"ours"}}}`
	s.do(create)
	s.shows("a", `{"k":"ours"}`)
	s.made(configMaps, strings.ReplaceAll(configMapA, "name: a", "name: b"))
	s.do(strings.ReplaceAll(create, `"a"`, `"b"`))
	s.shows("b", `{"k":"v"}`)
}

func TestAnObjectWithoutANameIsMadeOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	create := `{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"generateName":"made-","namespace":"NS"}}}`
	s.do(create)
	noted := s.noted
	if noted == nil || !strings.HasPrefix(noted.Name, "made-") || len(noted.Name) != len("made-")+5 || noted.Object.Name != noted.Name {
		t.Fatalf("noted %+v", noted)
	}
	if err := s.try(create, s.resend(noted)); err != nil {
		t.Error(err)
	}
	list, err := s.objects.Resource(configMaps).Namespace(s.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, item := range list.Items {
		if strings.HasPrefix(item.GetName(), "made-") {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d were made", made)
	}
}

func TestKindsGoByAnyOfTheirNames(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, configMapA)
	for i, kind := range []string{"ConfigMap", "configmap", "CONFIGMAPS", "cm"} {
		for _, version := range []string{"", `"apiVersion":"v1",`} {
			key := fmt.Sprintf("k%d", i)
			s.do(`{"operation":"MergePatch",` + version + `"kind":"` + kind + `","name":"a","namespace":"NS","mergePatch":{"data":{"` + key + `":"x"}}}`)
			s.do(`{"operation":"MergePatch",` + version + `"kind":"` + kind + `","name":"a","namespace":"NS","mergePatch":{"data":{"` + key + `":null}}}`)
		}
	}
	s.shows("a", `{"k":"v"}`)
	s.do(`{"operation":"CreateOrUpdate","object":{"kind":"deploy","metadata":{"name":"d","namespace":"NS"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}}`)
	if d := s.get(deployments, "d"); d.GetAPIVersion() != "apps/v1" || d.GetKind() != "Deployment" {
		t.Error(d.GroupVersionKind())
	}
}

func TestWhatTheClusterCannotDoIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	operation.Impatient(s.executor, 100*time.Millisecond)
	s.made(configMaps, configMapA)
	s.refuses(`{"operation":"Delete","kind":"Nonesuch","name":"a"}`, s.attempt(), `kind "Nonesuch": the API server does not serve this kind`)
	s.refuses(`{"operation":"Create","object":{"apiVersion":"none.io/v1","kind":"Nonesuch","metadata":{"name":"a"}}}`, s.attempt(), `kind "Nonesuch" of none.io/v1: the API server does not serve`)
	s.refuses(`{"operation":"Delete","kind":"ConfigMap","name":"a"}`, s.attempt(), "ConfigMap is namespaced, but no namespace is given")
	s.refuses(`{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"name":"a","namespace":"no-such-namespace"}}}`, s.attempt(), `namespaces "no-such-namespace" not found`)
	s.refuses(`{"operation":"MergePatch","kind":"ConfigMap","name":"a","namespace":"NS","subresource":"colour","mergePatch":{}}`, s.attempt(), "ConfigMap has no subresource colour")
	s.refuses(`{"operation":"JSONPatch","kind":"ConfigMap","name":"a","namespace":"NS","subresource":"colour","jsonPatch":[]}`, s.attempt(), "ConfigMap has no subresource colour")
	s.refuses(`{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"name":"Not_A_Name","namespace":"NS"}}}`, s.attempt(), "the API server rejects it as invalid: metadata.name: Invalid value: a lowercase RFC 1123 subdomain")
	s.refuses(`{"operation":"MergePatch","kind":"ConfigMap","name":"a","namespace":"NS","mergePatch":{"data":{"bad key":"hunter2"}}}`, s.attempt(), "data[bad key]: Invalid value: a valid config key")
}

func TestAKindThatWasNotServedInTimeIsNotWaitedForAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	operation.Impatient(s.executor, time.Hour)
	a := s.attempt()
	a.Awaited = true
	s.refuses(`{"operation":"Create","object":{"apiVersion":"none.io/v1","kind":"Nonesuch","metadata":{"name":"a"}}}`, a, `kind "Nonesuch" of none.io/v1: the API server does not serve`)
}

func TestAKindThatIsAboutToAppearIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	group := s.namespace + ".example.com"
	s.do(`{"operation":"Create","object":{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lights.` + group + `"},
		"spec":{"group":"` + group + `","scope":"Cluster","names":{"kind":"Light","plural":"lights"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}}`)
	t.Cleanup(func() { s.do(`{"operation":"DeleteInBackground","kind":"crd","name":"lights.` + group + `"}`) })
	s.do(`{"operation":"Create","object":{"apiVersion":"` + group + `/v1","kind":"Light","metadata":{"name":"red"}}}`)
	s.do(`{"operation":"JQPatch","apiVersion":"` + group + `/v1","kind":"light","name":"red","jqFilter":".on = true"}`)
	red, err := s.objects.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "lights"}).Get(t.Context(), "red", metav1.GetOptions{})
	if err != nil || red.Object["on"] != true {
		t.Errorf("%v, %v", red, err)
	}
}

func TestAServerThatDoesNotAnswerIsNoRefusal(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client, err := kube.NewClient(&rest.Config{Host: silent.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	x, err := operation.NewExecutor(client, kube.NewKinds(client, kube.Observer{}), operation.Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = x.Do(t.Context(), operation.Operation{Type: operation.Delete, APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a"}, operation.Attempt{})
	if err == nil || operation.IsRefused(err) || !strings.Contains(err.Error(), "did not answer in time") {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("that took %s", took)
	}
}
