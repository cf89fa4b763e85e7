package steps

import (
	"encoding/json"
	"strings"
	"testing"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

func TestFirstLinesOfBadJSONAreInTheErrorWithoutSecrets(t *testing.T) {
	t.Parallel()
	s, _, _ := newLifecycle(t)
	in := hookInput{metrics: s.metrics.Parser("", "hook.sh")}
	if err := s.db.View(func(tx *store.Tx) error { return in.readLayers(tx, s.Values, values.Global) }); err != nil {
		t.Fatal(err)
	}
	const printed = "jq: error: invalid\nsecond line"
	const secret = `{"op":"add","path":"/global/token","value":"tok-123"`
	for variable, result := range map[string]func([]byte) hook.Result{
		"$VALUES_JSON_PATCH_PATH":        func(text []byte) hook.Result { return hook.Result{ValuesPatch: text} },
		"$CONFIG_VALUES_JSON_PATCH_PATH": func(text []byte) hook.Result { return hook.Result{ConfigPatch: text} },
		"$METRICS_PATH":                  func(text []byte) hook.Result { return hook.Result{Metrics: text} },
		"$KUBERNETES_PATCH_PATH":         func(text []byte) hook.Result { return hook.Result{Operations: append([]byte("{"), text...)} },
	} {
		_, err := hookOutput{Section: values.Global}.outcome(in, result([]byte(printed)))
		if err == nil || !strings.HasPrefix(err.Error(), variable+": ") || !strings.Contains(err.Error(), "jq: error: invalid⏎ second line”") {
			t.Errorf("%s: %v", variable, err)
		}
		_, err = hookOutput{Section: values.Global}.outcome(in, result([]byte(secret)))
		if err == nil || !strings.Contains(err.Error(), "/global/token (redacted)”") || strings.Contains(err.Error(), "tok-123") {
			t.Errorf("%s, of a secret: %v", variable, err)
		}
	}
}

func TestErrorOfAnEnabledScriptNamesItOnceWithItsExitStatus(t *testing.T) {
	t.Parallel()
	s, mounted, _ := newLifecycle(t)
	write(t, mounted, "values.yaml", "webEnabled: true")
	program(t, mounted, "010-web/enabled", "#!/bin/sh\necho cannot ask >&2\nexit 4\n")
	runner, err := hook.NewRunner(hook.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runner.Close)
	s = rebuilt(t, s, func(o *Options) { o.Hooks, o.GlobalHooksDir = runner, t.TempDir() })
	_, err = s.discoverStep().Do(t.Context(), workflow.Task{})
	if want := "module web: enabled script: exit status 4: cannot ask"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestSummaryOfAHooksOutputNamesWhatChangesWithoutValues(t *testing.T) {
	t.Parallel()
	ops := func(paths ...string) (ops []values.Op) {
		for _, path := range paths {
			ops = append(ops, values.Op{Op: "add", Path: path, Value: json.RawMessage(`"secret"`)})
		}
		return ops
	}
	yes := true
	for _, test := range []struct {
		want       string
		out        hookOutput
		operations int
	}{
		{"", hookOutput{}, 0},
		{"", hookOutput{Patch: sections.Patch{Values: ops("/web/same")}}, 0},
		{"1 object operation", hookOutput{}, 1},
		{"values /web/a, /web/b, /web/c, 2 more changed; 7 object operations", hookOutput{
			Patch: sections.Patch{Values: ops("/web/a", "/web/b", "/web/c", "/web/d", "/web/e"), Changed: true},
		}, 7},
		{"values /web/a changed; values /global/b changed; ConfigMap values /web/c, dbEnabled set; enabled overrides webEnabled set", hookOutput{
			Patch:  sections.Patch{Values: ops("/web/a"), Changed: true},
			Global: &sections.Patch{Values: ops("/global/b"), Changed: true},
			Config: &sections.ConfigWrite{Ops: ops("/web/c"), Flags: map[string]*bool{"dbEnabled": &yes}},
			Flags:  map[string]*bool{"webEnabled": nil},
		}, 0},
	} {
		if got := test.out.summary(test.operations); got != test.want {
			t.Errorf("summary of %+v with %d operations: %q, want %q", test.out, test.operations, got, test.want)
		}
	}
}
