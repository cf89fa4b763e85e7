package steps

import (
	"strings"
	"testing"

	"addon-operator/internal/hook"
	"addon-operator/steps/hookio"
	"addon-operator/workflow"
)

func TestFirstLinesOfBadJSONAreInTheErrorWithoutSecrets(t *testing.T) {
	t.Parallel()
	s, _, _ := newLifecycle(t)
	in := inputOf(t, s, "")
	const printed = "jq: error: invalid\nsecond line"
	const secret = `{"op":"add","path":"/global/token","value":"tok-123"`
	for variable, result := range map[string]func([]byte) hook.Result{
		"$VALUES_JSON_PATCH_PATH":        func(text []byte) hook.Result { return hook.Result{ValuesPatch: text} },
		"$CONFIG_VALUES_JSON_PATCH_PATH": func(text []byte) hook.Result { return hook.Result{ConfigPatch: text} },
		"$METRICS_PATH":                  func(text []byte) hook.Result { return hook.Result{Metrics: text} },
		"$KUBERNETES_PATCH_PATH":         func(text []byte) hook.Result { return hook.Result{Operations: append([]byte("{"), text...)} },
	} {
		_, err := hookio.NewOutput("").Outcome(in, result([]byte(printed)))
		if err == nil || !strings.HasPrefix(err.Error(), variable+": ") || !strings.Contains(err.Error(), "jq: error: invalid⏎ second line”") {
			t.Errorf("%s: %v", variable, err)
		}
		_, err = hookio.NewOutput("").Outcome(in, result([]byte(secret)))
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
