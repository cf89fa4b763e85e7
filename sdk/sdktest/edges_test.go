package sdktest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"addon-operator/sdk"
	"addon-operator/sdk/sdktest"
)

func TestObjectsAreSortedByNamespaceAndThenByName(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{Kubernetes: []sdk.Kubernetes{{Name: "maps", Kind: "cm", JqFilter: `.metadata | .namespace + " " + .name`}}}, func(*sdk.Run) {}))
	for _, object := range []string{"name: b, namespace: a", "name: c, namespace: a-b", "name: z, namespace: a", "name: x", "name: a, namespace: a.b"} {
		s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {" + object + "}}")
	}
	var context []struct {
		Objects []struct {
			FilterResult string `json:"filterResult"`
		} `json:"objects"`
	}
	if err := json.Unmarshal(s.Synchronize("maps").Must().Context, &context); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range context[0].Objects {
		names = append(names, o.FilterResult)
	}
	want(t, "objects", []string{" x", "a b", "a z", "a-b c", "a.b a"}, names)
}

func TestValuesAreThoseOfTheFilesTheConfigMapAndEarlierRuns(t *testing.T) {
	t.Parallel()
	s := sdktest.Module(t, "my-web", runner(sdk.Config{OnStartup: new(1)}, func(r *sdk.Run) {
		ports, err := sdk.Value(r.Values, "myWeb.port", 0)
		if err != nil {
			t.Error(err)
		}
		r.Values.Set("myWeb.port", ports+1)
	}))
	want(t, "no value", nil, s.Value("myWeb.port"))
	s.SetValues("{global: {domain: d}, myWeb: {port: 1, size: 9007199254740993}, other: {a: 1}}")
	want(t, "of the files", any(int64(1)), s.Value("myWeb.port"))
	s.SetConfigValues("myWeb: {port: 10}")
	want(t, "of the ConfigMap", any(int64(10)), s.Value("myWeb.port"))
	s.Ordered("onStartup").Must()
	s.Ordered("onStartup").Must()
	want(t, "of the hook", any(int64(12)), s.Value("myWeb.port"))
	want(t, "a large number", any(int64(9007199254740993)), s.Value("myWeb.size"))
	want(t, "of the ConfigMap still", any(int64(10)), s.ConfigValue("myWeb.port"))
	want(t, "sections", map[string]any{"global": map[string]any{"domain": "d"}, "myWeb": map[string]any{"port": int64(12), "size": int64(9007199254740993)}}, s.Values())
	s.SetValues("myWeb: {port: 5}")
	want(t, "of the hook before new files", any(int64(12)), s.Value("myWeb.port"))
}

func TestARunOfAFailedHookChangesNothing(t *testing.T) {
	t.Parallel()
	fails := false
	s := sdktest.Global(t, runner(sdk.Config{OnStartup: new(1)}, func(r *sdk.Run) {
		r.Values.Set("global.a", 1)
		r.Objects.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "m", "namespace": "ns"}})
		if fails {
			r.Values.Set("global..b", 1)
		}
	}))
	fails = true
	r := s.Ordered("onStartup")
	if r.Err == nil || !r.Ran || r.ValuesPatch != nil || r.Operations != nil || !strings.Contains(r.Err.Error(), "exit code 1: set global..b: ") {
		t.Errorf("the result is %+v, error %v", r, r.Err)
	}
	want(t, "value", nil, s.Value("global.a"))
	if s.Object("ConfigMap", "ns", "m") != nil {
		t.Error("the object exists")
	}
	fails = false
	s.Ordered("onStartup").Must()
	want(t, "value", any(int64(1)), s.Value("global.a"))
}

func TestAChangeIsDeliveredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{Kubernetes: []sdk.Kubernetes{{Name: "maps", Kind: "cm", JqFilter: ".data.a", KeepFullObjectsInMemory: new(false)}}}, func(*sdk.Run) {}))
	put := func(data string) {
		s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns}, data: {" + data + "}}")
	}
	put("a: '1'")
	put("a: '1', b: '2'") // no event: the filter's result is the same
	put("a: '2'")
	s.Remove("configmaps", "ns", "m")
	put("a: '2'")
	const event = `{"binding":"maps","type":"Event","watchEvent":`
	want(t, "context", `[`+event+`"Added","filterResult":"1"},`+event+`"Modified","filterResult":"2"},`+event+`"Deleted","filterResult":"2"},`+event+`"Added","filterResult":"2"}]`, string(s.Events().Must().Context))
	if r := s.Events(); r.Ran || r.Err != nil {
		t.Errorf("the changes are delivered again: %s, error %v", r.Context, r.Err)
	}
}

func TestAnObjectThatLeavesTheSelectionIsDeletedForTheBinding(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{Kubernetes: []sdk.Kubernetes{{
		Name: "pods", Kind: "Pod", JqFilter: ".metadata.name", KeepFullObjectsInMemory: new(false), LabelSelector: &sdk.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}}, func(*sdk.Run) {}))
	s.Put(podNamed("a", ""))
	s.Events().Must()
	s.Put("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}")
	want(t, "context", `[{"binding":"pods","type":"Event","watchEvent":"Deleted","filterResult":"a"}]`, string(s.Events().Must().Context))
	want(t, "snapshot", `[{"binding":"pods","type":"Synchronization","objects":[]}]`, string(s.Synchronize("pods").Must().Context))
	if s.Object("po", "default", "a") == nil {
		t.Error("the object is gone")
	}
}

func TestAnObjectOfATestIsACopy(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{OnStartup: new(1)}, func(*sdk.Run) {}))
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns}, data: {a: '1'}}")
	s.Object("cm", "ns", "m")["data"] = "changed by the test"
	want(t, "data", any(map[string]any{"a": "1"}), s.Object("ConfigMap", "ns", "m")["data"])
	if o := s.Object("cm", "other", "m"); o != nil {
		t.Errorf("an object of another namespace: %v", o)
	}
}

func TestAGeneratedNameIsANewOneEachTime(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{OnStartup: new(1)}, func(r *sdk.Run) {
		for range 2 {
			r.Objects.Create(map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"generateName": "run-", "namespace": "ns"}})
		}
	}))
	s.Ordered("onStartup").Must()
	for _, name := range []string{"run-00001", "run-00002"} {
		if s.Object("job", "ns", name) == nil {
			t.Errorf("there is no Job %s", name)
		}
	}
}

func TestTheEnabledFlagOfAModuleIsThatOfItsName(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{OnStartup: new(1)}, func(r *sdk.Run) {
		r.Values.Set("myWebEnabled", false)
		r.Values.Set("dbEnabled", true)
	}))
	s.Ordered("onStartup").Must()
	for module, wants := range map[string][2]bool{"my-web": {false, true}, "db": {true, true}, "web": {false, false}} {
		value, ok := s.Enabled(module)
		want(t, module, wants, [2]bool{value, ok})
	}
}
