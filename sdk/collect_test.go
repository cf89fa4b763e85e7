package sdk_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/operation"
	"addon-operator/internal/series"
	"addon-operator/sdk"
)

func TestObjectOperationsAreThoseTheOperatorKnows(t *testing.T) {
	t.Parallel()
	ref := sdk.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "web"}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}
	written, code, stderr := files{}.run(t, func(r *sdk.Run) error {
		r.Objects.Create(object)
		r.Objects.CreateOrUpdate(object)
		r.Objects.CreateIfNotExists(object)
		r.Objects.Delete(ref)
		r.Objects.DeleteInBackground(sdk.Ref{Kind: "clusterrole", Name: "a"})
		r.Objects.DeleteNonCascading(ref)
		r.Objects.MergePatch(ref, map[string]any{"spec": nil}, sdk.Subresource("/status"), sdk.IgnoreMissing())
		r.Objects.JSONPatch(ref, []sdk.Change{
			{Op: "remove", Path: "/a"},
			{Op: "add", Path: "/b"},
			{Op: "replace", Path: "/c", Value: 1},
			{Op: "move", From: "/d", Path: "/e"},
			{Op: "copy", From: "/f", Path: "/g"},
			{Op: "test", Path: "/h", Value: "x"},
		})
		r.Objects.JQPatch(ref, ".a = 1")
		return nil
	})
	if code != 0 {
		t.Fatal(stderr)
	}
	const target = `"apiVersion":"apps/v1","kind":"Deployment","namespace":"ns","name":"web"`
	const made = `"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	sameFiles(t, files{
		"KUBERNETES_PATCH_PATH": `
		{"operation":"Create",` + made + `}
		{"operation":"CreateOrUpdate",` + made + `}
		{"operation":"CreateIfNotExists",` + made + `}
		{"operation":"Delete",` + target + `}
		{"operation":"DeleteInBackground","kind":"clusterrole","name":"a"}
		{"operation":"DeleteNonCascading",` + target + `}
		{"operation":"MergePatch",` + target + `,"mergePatch":{"spec":null},"subresource":"/status","ignoreMissingObject":true}
		{"operation":"JSONPatch",` + target + `,"jsonPatch":[
			{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":null},{"op":"replace","path":"/c","value":1},
			{"op":"move","from":"/d","path":"/e"},{"op":"copy","from":"/f","path":"/g"},{"op":"test","path":"/h","value":"x"}]}
		{"operation":"JQPatch",` + target + `,"jqFilter":".a = 1"}`,
	}, written)
	if operations, err := operation.Parse([]byte(written["KUBERNETES_PATCH_PATH"])); err != nil || len(operations) != 9 {
		t.Errorf("the operator reads %d of 9: %v", len(operations), err)
	}
}

func TestMetricsAreThoseTheOperatorKnows(t *testing.T) {
	t.Parallel()
	written, code, stderr := files{}.run(t, func(r *sdk.Run) error {
		r.Metrics.Add("c", 2, map[string]string{"a": "b"})
		r.Metrics.Set("g", 0, nil)
		r.Metrics.Observe("h", 0.5, []float64{0.1, 1}, nil)
		pods := r.Metrics.Group("pods")
		pods.Expire()
		pods.Set("p", 1, nil)
		return nil
	})
	if code != 0 {
		t.Fatal(stderr)
	}
	sameFiles(t, files{
		"METRICS_PATH": `
		{"action":"add","name":"c","value":2,"labels":{"a":"b"}}
		{"action":"set","name":"g","value":0}
		{"action":"observe","name":"h","value":0.5,"buckets":[0.1,1]}
		{"action":"expire","group":"pods"}
		{"action":"set","name":"p","value":1,"group":"pods"}`,
	}, written)
	if ops, err := series.Parse([]byte(written["METRICS_PATH"]), ""); err != nil || len(ops) != 5 {
		t.Errorf("the operator reads %d of 5: %v", len(ops), err)
	}
}

func TestElementsTellWhatHappened(t *testing.T) {
	t.Parallel()
	pod := hook.Item{Object: json.RawMessage(`{"metadata":{"name":"a"}}`), FilterResult: json.RawMessage(`"a"`)}
	bare := hook.Item{Object: json.RawMessage(`{"metadata":{"name":"b"}}`)}
	encoded, err := hook.Encode([]hook.Element{
		{Binding: "pods", Type: hook.TypeSynchronization, Objects: []hook.Item{pod}, Snapshots: map[string][]hook.Item{"pods": {pod, {FilterResult: json.RawMessage("null")}}}},
		{Binding: "others", Type: hook.TypeEvent, WatchEvent: hook.Deleted, Item: bare},
		{Binding: "pods", Type: hook.TypeSchedule, Group: "g", Snapshots: map[string][]hook.Item{"others": {bare}, "none": nil}},
		{Binding: "beforeHelm", Snapshots: map[string][]hook.Item{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	_, code, stderr := files{"BINDING_CONTEXT_PATH": string(encoded)}.run(t, func(r *sdk.Run) error {
		var elements []string
		for _, e := range r.Elements {
			elements = append(elements, e.Binding+" "+string(e.Type)+" "+e.WatchEvent+" "+e.Group)
		}
		if diff := cmp.Diff([]string{"pods Synchronization  ", "others Event Deleted ", "pods Group  g", "beforeHelm   "}, elements); diff != "" {
			t.Errorf("elements (-want +got):\n%s", diff)
		}
		names, err := sdk.Snapshot[*string](r, "pods")
		if err != nil || len(names) != 2 || *names[0] != "a" || names[1] != nil {
			t.Errorf("snapshot is %v, %v", names, err)
		}
		others, err := sdk.Snapshot[object](r, "others")
		if err != nil || len(others) != 1 || others[0].Metadata.Name != "b" {
			t.Errorf("snapshot is %v, %v", others, err)
		}
		if none, err := sdk.Snapshot[object](r, "none"); err != nil || none == nil || len(none) != 0 {
			t.Errorf("an empty snapshot is %v, %v", none, err)
		}
		deleted, err := sdk.Decode[object](r.Elements[1].Item)
		if err != nil || deleted.Metadata.Name != "b" {
			t.Errorf("the object is %v, %v", deleted, err)
		}
		for want, err := range map[string]error{
			`snapshot "pod": this run has only the snapshots [none others pods]; correct the name, or add it to includeSnapshotsFrom of the binding of this run (onStartup has no snapshots)`: second(sdk.Snapshot[string](r, "pod")),
			"snapshot pods: item 0: the item is not of type int: json: cannot unmarshal string into Go value of type int":                                                                     second(sdk.Snapshot[int](r, "pods")),
			"the item has neither a filter result nor an object: give the binding a jqFilter, or let it keep full objects":                                                                    second(sdk.Decode[string](sdk.Item{})),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("the error is %v, want %s", err, want)
			}
		}
		return nil
	})
	if code != 0 {
		t.Error(stderr)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAdmissionIsAnswered(t *testing.T) {
	t.Parallel()
	const review = `{"request":{"uid":"1","operation":"CREATE","kind":{"kind":"Pod"},"namespace":"ns","name":"a","dryRun":true,
		"userInfo":{"username":"me","groups":["g"]},"object":{"spec":{}},"oldObject":null}}`
	encoded, err := hook.Encode([]hook.Element{{Binding: "p.example.com", Type: hook.TypeMutating, Review: json.RawMessage(review)}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		do   func(r *sdk.Run)
		want hook.Verdict
	}{
		"allowed":  {func(r *sdk.Run) { r.Allow("careful") }, hook.Verdict{Allowed: true, Warnings: []string{"careful"}}},
		"denied":   {func(r *sdk.Run) { r.Deny("no") }, hook.Verdict{Message: "no"}},
		"the last": {func(r *sdk.Run) { r.Deny("no"); r.Allow() }, hook.Verdict{Allowed: true}},
		"changed": {
			func(r *sdk.Run) { r.AllowChanged([]sdk.Change{{Op: "add", Path: "/a", Value: 1}}) },
			hook.Verdict{Allowed: true, Patch: json.RawMessage(`[{"op":"add","path":"/a","value":1}]`)},
		},
		"not changed": {func(r *sdk.Run) { r.AllowChanged(nil, "w") }, hook.Verdict{Allowed: true, Warnings: []string{"w"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written, code, stderr := files{"BINDING_CONTEXT_PATH": string(encoded)}.run(t, func(r *sdk.Run) error {
				request, err := r.Elements[0].AdmissionRequest()
				if err != nil || request.Operation != "CREATE" || request.Kind.Kind != "Pod" || !request.DryRun ||
					!slices.Equal(request.UserInfo.Groups, []string{"g"}) || string(request.Object) != `{"spec":{}}` {
					t.Errorf("the request is %+v, %v", request, err)
				}
				if _, err := r.Elements[0].ConversionObjects(); err == nil {
					t.Error("it is read as a conversion, too")
				}
				test.do(r)
				return nil
			})
			if code != 0 {
				t.Fatal(stderr)
			}
			got, err := hook.ParseVerdict([]byte(written["ADMISSION_RESPONSE_PATH"]), true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConversionIsAnswered(t *testing.T) {
	t.Parallel()
	const v1, v2 = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`
	encoded, err := hook.Encode([]hook.Element{{
		Binding: "up", Type: hook.TypeConversion, FromVersion: "example.com/v1", ToVersion: "example.com/v2",
		Review: json.RawMessage(`{"request":{"objects":[` + v1 + `]}}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		do   func(r *sdk.Run)
		want hook.Converted
	}{
		"converted": {func(r *sdk.Run) { r.Converted(json.RawMessage(v2)) }, hook.Converted{Objects: []json.RawMessage{json.RawMessage(v2)}}},
		"not":       {func(r *sdk.Run) { r.NotConverted("no") }, hook.Converted{Failed: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written, code, stderr := files{"BINDING_CONTEXT_PATH": string(encoded)}.run(t, func(r *sdk.Run) error {
				objects, err := r.Elements[0].ConversionObjects()
				if err != nil || len(objects) != 1 || string(objects[0]) != v1 || r.Elements[0].ToVersion != "example.com/v2" {
					t.Errorf("the objects are %s, %v", objects, err)
				}
				test.do(r)
				return nil
			})
			if code != 0 {
				t.Fatal(stderr)
			}
			got, err := hook.ParseConverted([]byte(written["CONVERSION_RESPONSE_PATH"]), []json.RawMessage{json.RawMessage(v1)}, "example.com/v2")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
