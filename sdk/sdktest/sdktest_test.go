package sdktest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/sdk"
	"addon-operator/sdk/sdktest"
)

func TestHooksInGoAndInBashAreRunAlike(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]sdktest.Subject{"go": sdktest.Go(podsHook()), "bash": script(t, podsScript)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test := sdktest.Module(t, "web", subject)
			test.SetValues("web: {replicas: 1, ready: []}")
			test.Put(podNamed("b", ", status: {ready: true}") + podNamed("a", "") + "{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: default}}")

			r := test.Synchronize("pods").Must()
			const a, b = `{"filterResult":{"name":"a","ready":false}}`, `{"filterResult":{"name":"b","ready":true}}`
			want(t, "context", `[{"binding":"pods","type":"Synchronization","objects":[`+a+`,`+b+`],"snapshots":{"pods":[`+a+`,`+b+`]}}]`, string(r.Context))
			want(t, "ready", any([]any{"b"}), test.Value("web.ready"))
			want(t, "replicas", any(int64(1)), test.Value("web.replicas"))
			if r := test.Events(); r.Ran {
				t.Errorf("received again objects of the Synchronization: %s", r.Context)
			}

			test.Put(podNamed("c", ", status: {ready: true}"))
			test.Put(podNamed("a", ", status: {ready: false, reason: waiting}")) // no event: the filter's result is the same
			r = test.Events().Must()
			want(t, "operations", 1, len(r.Operations))
			label, _, err := unstructured.NestedString(test.Object("pod", "default", "c"), "metadata", "labels", "seen")
			want(t, "label", "yes", label)
			want(t, "error", nil, err)
			want(t, "ready", any([]any{"b", "c"}), test.Value("web.ready"))
			if r := test.Events(); r.Ran {
				t.Errorf("received its own change, which does not affect the filter result: %s", r.Context)
			}

			test.Remove("Pod", "default", "b")
			r = test.Events().Must()
			want(t, "metrics", []sdktest.Metric{{Action: "add", Name: "pods_deleted", Value: 1, Labels: map[string]string{"pod": "b"}}}, r.Metrics)
			want(t, "ready", any([]any{"c"}), test.Value("web.ready"))

			r = test.Ordered("beforeHelm").Must()
			want(t, "patch", []sdktest.Op{{Op: "add", Path: "/web/ready", Value: json.RawMessage(`["c"]`)}}, r.ValuesPatch)
			test.Tick("tick").Must()
		})
	}
}

func TestObjectsOfBindingsAreThoseTheySelect(t *testing.T) {
	t.Parallel()
	const objects = `
{apiVersion: v1, kind: Namespace, metadata: {name: one, labels: {team: red}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: two}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: one, labels: {app: web}}, spec: {type: ClusterIP}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: two, labels: {app: web}}, spec: {type: NodePort}}
---
{apiVersion: example.com/v1, kind: Service, metadata: {name: c, namespace: two}}
`
	for name, test := range map[string]struct {
		binding sdk.Kubernetes
		want    string
	}{
		"kind":             {sdk.Kubernetes{Kind: "service"}, "a b c"},
		"plural":           {sdk.Kubernetes{Kind: "Services"}, "a b c"},
		"short name":       {sdk.Kubernetes{Kind: "svc"}, "a b c"},
		"another kind":     {sdk.Kubernetes{Kind: "Serv"}, ""},
		"version":          {sdk.Kubernetes{Kind: "Service", APIVersion: "v1"}, "a b"},
		"name":             {sdk.Kubernetes{Kind: "Service", NameSelector: &sdk.NameSelector{MatchNames: []string{"b", "x"}}}, "b"},
		"label":            {sdk.Kubernetes{Kind: "Service", LabelSelector: &sdk.LabelSelector{MatchExpressions: []sdk.LabelRequirement{{Key: "app", Operator: "DoesNotExist"}}}}, "c"},
		"field":            {sdk.Kubernetes{Kind: "Service", FieldSelector: &sdk.FieldSelector{MatchExpressions: []sdk.FieldRequirement{{Field: "spec.type", Operator: "=", Value: "NodePort"}}}}, "b"},
		"not a field":      {sdk.Kubernetes{Kind: "Service", FieldSelector: &sdk.FieldSelector{MatchExpressions: []sdk.FieldRequirement{{Field: "spec.type", Operator: "!=", Value: "NodePort"}}}}, "a c"},
		"namespace":        {sdk.Kubernetes{Kind: "Service", Namespace: &sdk.NamespaceSelector{NameSelector: &sdk.NameSelector{MatchNames: []string{"two"}}}}, "b c"},
		"namespace labels": {sdk.Kubernetes{Kind: "Service", Namespace: &sdk.NamespaceSelector{LabelSelector: &sdk.LabelSelector{MatchLabels: map[string]string{"team": "red"}}}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.binding.JqFilter = ".metadata.name"
			var names []string
			s := sdktest.Global(t, runner(sdk.Config{Kubernetes: []sdk.Kubernetes{test.binding}}, func(r *sdk.Run) {
				for _, item := range r.Elements[0].Objects {
					name, err := sdk.Decode[string](item)
					if err != nil {
						t.Error(err)
					}
					names = append(names, name)
				}
			}))
			s.Put(objects)
			s.Synchronize("kubernetes").Must()
			want(t, "names", test.want, strings.Join(names, " "))
		})
	}
}

func TestNamespacesThatComeToMatchBringTheirObjectsSilently(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{BeforeAll: new(1), Kubernetes: []sdk.Kubernetes{{
		Name: "maps", Kind: "cm", Namespace: &sdk.NamespaceSelector{LabelSelector: &sdk.LabelSelector{MatchLabels: map[string]string{"team": "red"}}},
	}}}, func(r *sdk.Run) {
		r.Values.Set("global.maps", len(r.Elements[0].Snapshots["maps"]))
	}))
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: one}}")
	for labels, count := range map[string]int64{"{team: red}": 1, "{}": 0} {
		s.Put("{apiVersion: v1, kind: Namespace, metadata: {name: one, labels: " + labels + "}}")
		if r := s.Events(); r.Ran {
			t.Errorf("received %s", r.Context)
		}
		s.Ordered("beforeAll").Must()
		want(t, "maps with labels "+labels, any(count), s.Value("global.maps"))
	}
}

func TestObjectWhoseFilterFailsKeepsItsStateWhenItsNamespaceChanges(t *testing.T) {
	t.Parallel()
	var names []string
	s := sdktest.Global(t, runner(sdk.Config{BeforeAll: new(1), Kubernetes: []sdk.Kubernetes{{
		Name: "maps", Kind: "cm", JqFilter: ".data.names | join(\" \")",
		Namespace: &sdk.NamespaceSelector{LabelSelector: &sdk.LabelSelector{MatchLabels: map[string]string{"team": "red"}}},
	}}}, func(r *sdk.Run) {
		names = nil
		for _, item := range r.Elements[0].Snapshots["maps"] {
			names = append(names, string(item.FilterResult))
		}
	}))
	label := func(labels string) {
		s.Put("{apiVersion: v1, kind: Namespace, metadata: {name: one, labels: " + labels + "}}")
	}
	label("{team: red}")
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: one}, data: {names: [first, second]}}")
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: one}, data: {names: 1}}")
	for _, c := range []struct {
		labels string
		want   []string
	}{
		{"{team: red, new: label}", []string{`"first second"`}},
		{"{team: blue}", nil},
		{"{team: red}", nil}, // the filter has not succeeded again
	} {
		label(c.labels)
		s.Ordered("beforeAll").Must()
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("results with labels %s (-want +got):\n%s", c.labels, diff)
		}
	}
}

func TestGroupsAndSilentBindings(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, runner(sdk.Config{Kubernetes: []sdk.Kubernetes{
		{Name: "a", Kind: "cm", Group: "g", JqFilter: ".data.a"},
		{Name: "b", Kind: "cm", Group: "g", JqFilter: ".data.b"},
		{Name: "c", Kind: "cm", ExecuteHookOnSynchronization: new(false), ExecuteHookOnEvent: []string{sdk.Deleted}, JqFilter: ".data.c", KeepFullObjectsInMemory: new(false)},
	}}, func(*sdk.Run) {}))
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns}, data: {a: '1'}}")
	if r := s.Synchronize("c"); r.Ran {
		t.Error("a binding that is silent on synchronization ran")
	}
	context := string(s.Synchronize("a").Must().Context)
	if !strings.Contains(context, `"type":"Group","groupName":"g","snapshots":{"a":[`) || !strings.Contains(context, `"b":[`) {
		t.Errorf("the group received %s", context)
	}
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns}, data: {a: '2', b: '2', c: '2'}}")
	if got := strings.Count(string(s.Events().Must().Context), `"type"`); got != 1 {
		t.Errorf("one change in a group was delivered %d times", got)
	}
	s.Remove("ConfigMap", "ns", "m")
	want(t, "deleted", true, strings.Contains(string(s.Events().Must().Context), `{"binding":"c","type":"Event","watchEvent":"Deleted","filterResult":"2"}`))
}

func TestOperationsChangeTheObjectsOfTheTest(t *testing.T) {
	t.Parallel()
	ref := sdk.Ref{Kind: "ConfigMap", Namespace: "ns", Name: "m"}
	object := func(data string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "m", "namespace": "ns"}, "data": map[string]any{"a": data}}
	}
	for name, test := range map[string]struct {
		before string
		do     func(o *sdk.Objects)
		after  string // the object afterwards, without apiVersion, kind and metadata; "" if it does not exist
		err    string
	}{
		"create":             {"", func(o *sdk.Objects) { o.Create(object("1")) }, `{"data":{"a":"1"}}`, ""},
		"create what exists": {"data: {a: '0'}", func(o *sdk.Objects) { o.Create(object("1")) }, `{"data":{"a":"0"}}`, "Create ConfigMap ns/m: the object exists"},
		"create if absent":   {"data: {a: '0'}", func(o *sdk.Objects) { o.CreateIfNotExists(object("1")) }, `{"data":{"a":"0"}}`, ""},
		"create or update":   {"data: {a: '0', b: '0'}", func(o *sdk.Objects) { o.CreateOrUpdate(object("1")) }, `{"data":{"a":"1","b":"0"}}`, ""},
		"delete":             {"data: {}", func(o *sdk.Objects) { o.Delete(ref) }, "", ""},
		"delete nothing":     {"", func(o *sdk.Objects) { o.DeleteInBackground(ref) }, "", ""},
		"merge":              {"data: {a: '0'}", func(o *sdk.Objects) { o.MergePatch(ref, map[string]any{"data": map[string]any{"a": nil, "b": "1"}}) }, `{"data":{"b":"1"}}`, ""},
		"json patch":         {"data: {a: '0'}", func(o *sdk.Objects) { o.JSONPatch(ref, []sdk.Change{{Op: "replace", Path: "/data/a", Value: "1"}}) }, `{"data":{"a":"1"}}`, ""},
		"jq":                 {"data: {a: '0'}", func(o *sdk.Objects) { o.JQPatch(ref, `.data.b = .data.a`) }, `{"data":{"a":"0","b":"0"}}`, ""},
		"a status": {"data: {a: '0'}", func(o *sdk.Objects) {
			o.MergePatch(ref, map[string]any{"data": nil, "status": 1}, sdk.Subresource("/status"))
		}, `{"data":{"a":"0"},"status":1}`, ""},
		"create or update with null": {"", func(o *sdk.Objects) {
			made := object("1")
			made["data"], made["status"] = map[string]any{"a": "1", "b": nil}, nil
			o.CreateOrUpdate(made)
		}, `{"data":{"a":"1"}}`, ""},
		"patch nothing":         {"", func(o *sdk.Objects) { o.JQPatch(ref, ".") }, "", "there is no such object"},
		"patch nothing in turn": {"", func(o *sdk.Objects) { o.JQPatch(ref, ".", sdk.IgnoreMissing()) }, "", ""},
		"go on":                 {"", func(o *sdk.Objects) { o.JQPatch(ref, "."); o.Create(object("1")) }, `{"data":{"a":"1"}}`, "there is no such object"},
		"another name":          {"data: {}", func(o *sdk.Objects) { o.JQPatch(ref, `.metadata.name = "x"`) }, `{"data":{}}`, "the patch changes the name or kind of the object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sdktest.Global(t, runner(sdk.Config{OnStartup: new(1)}, func(r *sdk.Run) { test.do(r.Objects) }))
			if test.before != "" {
				s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns}, " + test.before + "}")
			}
			r := s.Ordered("onStartup")
			if (r.Err != nil) != (test.err != "") || r.Err != nil && !strings.Contains(r.Err.Error(), test.err) {
				t.Errorf("the error is %v, want %s", r.Err, test.err)
			}
			after := s.Object("cm", "ns", "m")
			delete(after, "apiVersion")
			delete(after, "kind")
			delete(after, "metadata")
			text, err := json.Marshal(after)
			if err != nil {
				t.Fatal(err)
			}
			if test.after == "" {
				test.after = "null"
			}
			want(t, "object", test.after, string(text))
		})
	}
}

func TestPatchesOfARunWithAFailedOperationAreNotApplied(t *testing.T) {
	t.Parallel()
	test := sdktest.Module(t, "web", script(t, `#!/bin/bash
if [[ $1 == --config ]]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit
fi
echo '{"op": "add", "path": "/web/values", "value": 1}' >"$VALUES_JSON_PATCH_PATH"
echo '{"op": "add", "path": "/web/config", "value": 1}' >"$CONFIG_VALUES_JSON_PATCH_PATH"
echo '{"operation": "JQPatch", "kind": "ConfigMap", "namespace": "ns", "name": "m", "jqFilter": "."}' >"$KUBERNETES_PATCH_PATH"
`))
	r := test.Ordered("beforeHelm")
	if r.Err == nil || !strings.Contains(r.Err.Error(), "there is no such object") {
		t.Fatalf("the error is %v", r.Err)
	}
	want(t, "values", nil, test.Value("web.values"))
	want(t, "config", nil, test.ConfigValue("web.config"))

	test.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns}}")
	test.Ordered("beforeHelm").Must()
	want(t, "values", any(int64(1)), test.Value("web.values"))
	want(t, "config", any(int64(1)), test.ConfigValue("web.config"))
}

func TestBadAnswersFailTheRunAndLeaveNothing(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"echo no >&2; exit 3":                 "exit code 3: no",
		`echo '{' >"$VALUES_JSON_PATCH_PATH"`: "VALUES_JSON_PATCH_PATH: values patch",
		`echo '{"op":"add","path":"/webEnabled","value":true}' >"$VALUES_JSON_PATCH_PATH"`: "cannot set flags",
		`echo '{"op":"add","path":"/web/a/b","value":1}' >"$VALUES_JSON_PATCH_PATH"`:       `the path contains "a", which does not exist`,
		`echo '{"op":"remove","path":"/web/x"}' >"$CONFIG_VALUES_JSON_PATCH_PATH"`:         "CONFIG_VALUES_JSON_PATCH_PATH",
		`echo '{"operation":"Creat"}' >"$KUBERNETES_PATCH_PATH"`:                           "KUBERNETES_PATCH_PATH",
		`echo '{"name":"m"}' >"$METRICS_PATH"`:                                             "METRICS_PATH",
		`echo '{"op":"add","path":"/web/ok","value":1}{' >"$VALUES_JSON_PATCH_PATH"`:       "VALUES_JSON_PATCH_PATH",
		`rm "$VALUES_PATH" "$VALUES_JSON_PATCH_PATH"; kill -9 $$`:                          "exit code 1",
		`cat "$VALUES_PATH" >&2; [[ $(<"$VALUES_PATH") == '{"global":{},"web":null}' ]]`:   "exit code 1",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := sdktest.Module(t, "web", script(t, "#!/bin/bash\n"+`[[ $1 == --config ]] && echo '{"configVersion":"v1","onStartup":1}' && exit
echo '{"op":"add","path":"/web/good","value":1}' >"$CONFIG_VALUES_JSON_PATCH_PATH"
`+text+"\n"))
			r := s.Ordered("onStartup")
			if r.Err == nil || !strings.Contains(r.Err.Error(), message) {
				t.Errorf("the error is %v, want %s", r.Err, message)
			}
			want(t, "values", any(nil), s.ConfigValue("web.good"))
		})
	}
}

func TestConfigPatchesAndFlagsTakeEffect(t *testing.T) {
	t.Parallel()
	on := true
	s := sdktest.Global(t, runner(sdk.Config{OnStartup: new(1)}, func(r *sdk.Run) {
		r.ConfigValues.Set("global.a.b", 1)
		if on {
			r.Values.Set("statusPageEnabled", true)
		} else {
			r.Values.Remove("statusPageEnabled")
		}
	}))
	s.SetConfigValues("global: {c: x}")
	s.Ordered("onStartup").Must()
	want(t, "config", map[string]any{"global": map[string]any{"a": map[string]any{"b": int64(1)}, "c": "x"}}, s.ConfigValues())
	want(t, "merged", any(int64(1)), s.Value("global.a.b"))
	if value, message := s.Enabled("status-page"); !value || !message {
		t.Errorf("the flag is %t, said: %t", value, message)
	}
	on = false
	s.Ordered("onStartup").Must()
	if _, message := s.Enabled("status-page"); message {
		t.Error("the hook still has an enabled override")
	}
}

func TestAdmissionAndConversionAreAsked(t *testing.T) {
	t.Parallel()
	admission := []sdk.Admission{{Name: "names.example.com", Rules: []sdk.Rule{{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Operations: []string{"CREATE"},
	}}}}
	s := sdktest.Module(t, "web", runner(sdk.Config{
		Validating: admission,
		Conversion: []sdk.Conversion{{
			Name: "up", CRDName: "widgets.example.com", Conversions: []sdk.ConversionStep{{FromVersion: "v1", ToVersion: "v2"}},
		}},
	}, func(r *sdk.Run) {
		e := r.Elements[0]
		if objects, err := e.ConversionObjects(); err == nil {
			var object map[string]any
			if err := json.Unmarshal(objects[0], &object); err != nil {
				t.Error(err)
			}
			if object["kind"] != "Widget" {
				r.NotConverted("no widget")
				return
			}
			object["apiVersion"] = e.ToVersion
			r.Converted(object)
			return
		}
		request, err := e.AdmissionRequest()
		if err != nil {
			t.Error(err)
		}
		if request.Name == "bad" {
			r.Deny("bad name")
		} else if request.Name != "silent" {
			r.Allow()
		}
	}))
	want(t, "verdict", &sdktest.Verdict{Allowed: true}, s.Admit("names.example.com", "{name: good, operation: CREATE}").Must().Verdict)
	want(t, "verdict", &sdktest.Verdict{Message: "bad name"}, s.Admit("names.example.com", "{name: bad}").Must().Verdict)
	if r := s.Admit("names.example.com", "{name: silent}"); r.Err == nil {
		t.Error("no answer is an answer")
	}
	const v1 = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}"
	want(t, "converted", `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`,
		string(s.Convert("up", "example.com/v1", "example.com/v2", v1).Must().Converted[0]))
	if r := s.Convert("up", "example.com/v1", "example.com/v2", strings.Replace(v1, "Widget", "Gadget", 1)); r.Err == nil || !strings.Contains(r.Err.Error(), "no widget") {
		t.Errorf("the error is %v", r.Err)
	}
}

func TestNothingOfAnInvalidAnswerIsApplied(t *testing.T) {
	t.Parallel()
	const allow, patch = `echo '{"allowed":true}' >$ADMISSION_RESPONSE_PATH`, `echo '[{"op":"add","path":"/web/n","value":1}]' >$`
	for name, c := range map[string]struct{ lines, err string }{
		"no answer":                {patch + "VALUES_JSON_PATCH_PATH", "response"},
		"no JSON":                  {patch + "VALUES_JSON_PATCH_PATH\necho no >$ADMISSION_RESPONSE_PATH", "JSON"},
		"a patch of the ConfigMap": {allow + "\n" + patch + "CONFIG_VALUES_JSON_PATCH_PATH\n" + patch + "VALUES_JSON_PATCH_PATH", "cannot write the ConfigMap"},
		"none of these":            {allow + "\n" + patch + "VALUES_JSON_PATCH_PATH", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sdktest.Module(t, "web", script(t, `#!/bin/bash
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetesValidating":[{"name":"a.example.com","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}]}]}'
  exit
fi
`+c.lines+"\n"))
			r := s.Admit("a.example.com", "{name: a}")
			if (r.Err == nil) != (c.err == "") || r.Err != nil && !strings.Contains(r.Err.Error(), c.err) {
				t.Errorf("the error is %v, want %q", r.Err, c.err)
			}
			web, _ := s.Values()["web"].(map[string]any)
			if _, applied := web["n"]; applied != (c.err == "") {
				t.Errorf("the values are %v", s.Values())
			}
			if config, _ := s.ConfigValues()["web"].(map[string]any); config["n"] != nil {
				t.Errorf("the ConfigMap has %v", s.ConfigValues())
			}
		})
	}
}

func TestHookOfTheLegacyFormatIsToldInTheOldForm(t *testing.T) {
	t.Parallel()
	s := sdktest.Global(t, script(t, `#!/bin/bash
if [[ $1 == --config ]]; then
  echo '{"onStartup":1,"onKubernetesEvent":[{"name":"maps","kind":"configmap","event":["add","delete"]}]}'
  exit
fi
cat "$BINDING_CONTEXT_PATH"
`))
	s.Ordered("onStartup").Must()
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}")
	s.Put("{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ns}}")
	for _, name := range []string{"a", "b"} {
		var events []map[string]any
		if err := json.Unmarshal([]byte(s.Events().Must().Stdout), &events); err != nil {
			t.Fatal(err)
		}
		want(t, "told", []map[string]any{{
			"binding": "maps", "resourceEvent": "add", "resourceNamespace": "ns", "resourceKind": "ConfigMap", "resourceName": name,
		}}, events)
	}
	if s.Events().Ran {
		t.Error("there is nothing left to tell")
	}
}

// failed is a testing.TB that records the message with which a test ends.
type failed struct {
	testing.TB
	message string
}

func (f *failed) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}
func (f *failed) Fatal(args ...any) { f.message = fmt.Sprint(args...); panic(f) }

func TestSlipsOfATestEndIt(t *testing.T) {
	t.Parallel()
	good := sdktest.Go(podsHook())
	for message, do := range map[string]func(t *failed){
		"binding afterHelm, it has beforeHelm":           func(t *failed) { sdktest.Module(t, "web", good).Ordered("afterHelm") },
		"binding pod, it has pods":                       func(t *failed) { sdktest.Module(t, "web", good).Synchronize("pod") },
		"schedule tock, it has tick":                     func(t *failed) { sdktest.Module(t, "web", good).Tick("tock") },
		"binding x, it has none":                         func(t *failed) { sdktest.Module(t, "web", good).Admit("x", "{}") },
		"no conversion binding x":                        func(t *failed) { sdktest.Module(t, "web", good).Convert("x", "v1", "v2", "") },
		"beforeHelm: a global hook cannot":               func(t *failed) { sdktest.Global(t, good) },
		"no apiVersion, kind or name":                    func(t *failed) { sdktest.Module(t, "web", good).Put("kind: Pod") },
		"no Pod default/x to remove":                     func(t *failed) { sdktest.Module(t, "web", good).Remove("Pod", "default", "x") },
		"values: ":                                       func(t *failed) { sdktest.Module(t, "web", good).SetValues("[") },
		"run the hook with --config: chdir /no: no such": func(t *failed) { sdktest.Module(t, "web", sdktest.File("/no/such")) },
		"exit code 1 when it was run with":               func(t *failed) { sdktest.Module(t, "web", sdktest.File("/bin/false")) },
		"the hook had no reason to run":                  func(t *failed) { sdktest.Module(t, "web", good).Events().Must() },
		"the hook's config is not valid: hook c":         func(t *failed) { sdktest.Module(t, "web", sdktest.Go(sdk.Hook{})) },

		"text that looks like something else": func(t *failed) {
			sdktest.Module(t, "web", good).Put("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n}}")
		},
		"exit code 1: the hook has no Run": func(t *failed) {
			idle := sdktest.Go(sdk.Hook{Config: sdk.Config{OnStartup: new(1)}})
			sdktest.Module(t, "web", idle).Ordered("onStartup").Must()
		},
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			f := &failed{TB: t}
			func() {
				defer func() {
					if p := recover(); p != nil && p != f {
						panic(p)
					}
				}()
				do(f)
			}()
			if !strings.Contains(f.message, message) {
				t.Errorf("it says %q, want %q", f.message, message)
			}
		})
	}
}
