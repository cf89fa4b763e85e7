package shell_test

import (
	"strings"
	"testing"
)

func TestObjectFunctionsWriteOperations(t *testing.T) {
	t.Parallel()
	const object = `echo '{"kind":"A","metadata":{"name":"x"}}' | `
	const asked = `"object":{"kind":"A","metadata":{"name":"x"}}`
	var calls, operations []string
	for _, test := range []struct{ call, operations string }{
		{object + "kubernetes::create_json", `{"operation":"Create",` + asked + `}`},
		{object + "kubernetes::create_if_not_exists_json", `{"operation":"CreateIfNotExists",` + asked + `}`},
		{object + "kubernetes::replace_or_create_json", `{"operation":"CreateOrUpdate",` + asked + `}`},
		{object + "kubernetes::replace_json", `{"operation":"CreateOrUpdate",` + asked + `}`},
		{
			`echo '{"kind":"A"} {"kind":"B"}' | kubernetes::create_json`,
			`{"operation":"Create","object":{"kind":"A"}}{"operation":"Create","object":{"kind":"B"}}`,
		},
		{"printf 'kind: A\\nx: 1' | kubernetes::create_yaml", `{"operation":"Create","object":"kind: A\nx: 1\n"}`},
		{"echo 'kind: A' | kubernetes::create_if_not_exists_yaml", `{"operation":"CreateIfNotExists","object":"kind: A\n"}`},
		{"echo 'kind: A' | kubernetes::replace_or_create_yaml", `{"operation":"CreateOrUpdate","object":"kind: A\n"}`},
		{"echo 'kind: A' | kubernetes::replace_yaml", `{"operation":"CreateOrUpdate","object":"kind: A\n"}`},
		{
			"kubernetes::create_yaml <<'END'\n# a comment\n---\nkind: A\ntext: |\n  ---\n--- # next\nkind: B\n---\n\nEND",
			`{"operation":"Create","object":"---\nkind: A\ntext: |\n  ---\n"}{"operation":"Create","object":"--- # next\nkind: B\n"}`,
		},
		{"kubernetes::delete ns pod/x", `{"operation":"Delete","kind":"pod","name":"x","namespace":"ns"}`},
		{"kubernetes::delete_if_exists ns pod/x", `{"operation":"Delete","kind":"pod","name":"x","namespace":"ns"}`},
		{"kubernetes::delete_if_exists '' clusterrole/system:x", `{"operation":"Delete","kind":"clusterrole","name":"system:x"}`},
		{"kubernetes::delete_if_exists::non_blocking ns pod/x", `{"operation":"DeleteInBackground","kind":"pod","name":"x","namespace":"ns"}`},
		{"kubernetes::delete_if_exists::non_cascading ns v1/Pod/x", `{"operation":"DeleteNonCascading","apiVersion":"v1","kind":"Pod","name":"x","namespace":"ns"}`},
		{
			`kubernetes::patch_jq ns pod/x '.metadata.annotations."a/b" = "c"'`,
			`{"operation":"JQPatch","kind":"pod","name":"x","namespace":"ns","jqFilter":".metadata.annotations.\"a/b\" = \"c\""}`,
		},
		{
			`kubernetes::merge_patch --ignore-missing ns apps/v1/Deployment/x '{"spec": {"replicas": 1}}'`,
			`{"operation":"MergePatch","apiVersion":"apps/v1","kind":"Deployment","name":"x","namespace":"ns","mergePatch":{"spec":{"replicas":1}},"ignoreMissingObject":true}`,
		},
		{
			`kubernetes::json_patch --subresource /scale ns deployment/x '[{"op":"remove","path":"/a"}]'`,
			`{"operation":"JSONPatch","kind":"deployment","name":"x","namespace":"ns","jsonPatch":[{"op":"remove","path":"/a"}],"subresource":"/scale"}`,
		},
		{
			`kubernetes::status::merge_patch ns example.com/v1 widgets x '{"ready":true}'`,
			`{"operation":"MergePatch","apiVersion":"example.com/v1","kind":"widgets","name":"x","namespace":"ns","mergePatch":{"status":{"ready":true}},"subresource":"/status"}`,
		},
		{
			`kubernetes::status::json_patch ns example.com/v1 widgets x '[{"op":"add","path":"/status/a","value":1}]'`,
			`{"operation":"JSONPatch","apiVersion":"example.com/v1","kind":"widgets","name":"x","namespace":"ns","jsonPatch":[{"op":"add","path":"/status/a","value":1}],"subresource":"/status"}`,
		},
		{"kubernetes::create_json </dev/null", ""},
	} {
		calls, operations = append(calls, test.call), append(operations, test.operations)
	}
	for h := range each(t) {
		h.wantWritten(t, "KUBERNETES_PATCH_PATH", calls, operations)
	}
}

func TestBadObjectsAreNotWritten(t *testing.T) {
	t.Parallel()
	for call, message := range map[string]string{
		"kubernetes::delete ns x":                           "KIND/NAME",
		"kubernetes::delete ns":                             "",
		"kubernetes::delete ns a/b/c/d/e":                   "KIND/NAME",
		"kubernetes::merge_patch ns pod/x '{no json'":       "",
		"kubernetes::merge_patch ns pod/x '{} {}'":          "one JSON document",
		"kubernetes::merge_patch --wait ns pod/x '{}'":      "--wait is not an option",
		"kubernetes::create_json <<<'{\"kind\": '":          "",
		"kubernetes::status::merge_patch ns v1 pods x '{['": "",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			for h := range each(t) {
				h.script = call + "\necho on"
				r := h.run(t)
				if r.code == 0 || r.stdout != "" || r.files["KUBERNETES_PATCH_PATH"] != "" || !strings.Contains(r.stderr, message) {
					t.Errorf("exit status %d, printed %q, wrote %q, said:\n%s", r.code, r.stdout, r.files["KUBERNETES_PATCH_PATH"], r.stderr)
				}
			}
		})
	}
}
