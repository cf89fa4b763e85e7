package hook_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

func TestConfigIsWhatTheHookPrints(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{StoreID: "s", Env: []string{"PATH=/usr/bin:/bin", "BINDING_CONTEXT_PATH=/stale"}})
	run := scriptRun(t, `
[[ $# == 1 && $1 == --config ]] || exit 9
[[ -z ${BINDING_CONTEXT_PATH+set} && $ADDON_OPERATOR_STORE_ID == s ]] || exit 8
[[ $(cat | wc -c) == 0 && $PWD == "$(dirname "$0")" ]] || exit 7
cat config.yaml
echo noise >&2`)
	script(t, filepath.Join(filepath.Dir(run.File.Path), "config.yaml"), "configVersion: v1\nbeforeHelm: 4")
	config, err := r.Config(t.Context(), run.File)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hook.Config{Version: "v1", Ordered: map[string]int{"beforeHelm": 4}}, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestConfigIsReadForTheScopeOfItsFile(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	file := scriptRun(t, `echo '{configVersion: v1, beforeAll: 1}'`).File
	if _, err := r.Config(t.Context(), file); err == nil {
		t.Error("a module hook got beforeAll")
	}
	file.Scope = hook.Global
	if _, err := r.Config(t.Context(), file); err != nil {
		t.Error(err)
	}
}

func TestBadAnswersToConfigNameTheHook(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	for body, want := range map[string]string{
		"echo Enabled":                     "must be a map with configVersion and bindings, not a string",
		"true":                             "it is empty",
		"echo 'jq: not found' >&2; exit 5": "jq: not found",
		"exit 5":                           "exit status 5",
		"head -c 1100000 /dev/zero":        "printed 1100000 bytes, at most 1048576 are read",
		"echo configVersion: v2":           "'configVersion' value 'v2' is unsupported",
	} {
		_, err := r.Config(t.Context(), scriptRun(t, body).File)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "hook hooks/sub/x.sh --config") {
			t.Errorf("%s: error is %v, want %q and the hook's name", body, err, want)
		}
		var exit *hook.ExitError
		if errors.As(err, &exit) != strings.Contains(body, "exit") {
			t.Errorf("%s: exit error %v", body, exit)
		}
	}
}

func TestHangingConfigCanBeInterrupted(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{TermAfter: time.Millisecond, KillAfter: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := r.Config(ctx, scriptRun(t, "exec sleep 30").File); !errors.Is(err, hook.ErrInterrupted) {
		t.Errorf("error is %v, want it interrupted", err)
	}
}

func TestHangingConfigEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	limit := 100 * time.Millisecond
	for name, options := range map[string]hook.Options{
		"timeout of --config":                    {ConfigTimeout: limit},
		"timeout of --config is the shorter one": {ConfigTimeout: limit, Timeout: time.Hour},
		"timeout of all runs is the shorter one": {Timeout: limit},
	} {
		_, err := newRunner(t, options).Config(t.Context(), scriptRun(t, "exec sleep 1000").File)
		if !errors.Is(err, hook.ErrTimeout) || errors.Is(err, hook.ErrInterrupted) || !strings.Contains(err.Error(), "hook hooks/sub/x.sh --config: timed out: it ran longer than 100ms") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func enabledRun(t *testing.T, body string) hook.EnabledRun {
	t.Helper()
	return hook.EnabledRun{
		Path:   script(t, filepath.Join(t.TempDir(), "modules", "010-some", "enabled"), body),
		Module: "some", Task: "3-1", Attempt: 1, ConfigValues: []byte(`{"global":{}}`), Values: []byte(`{"global":{"enabledModules":[]}}`),
	}
}

func TestEnabledScriptDecides(t *testing.T) {
	t.Parallel()
	type answer struct {
		Enabled bool
		Reason  string
	}
	r := newRunner(t, hook.Options{})
	for body, want := range map[string]answer{
		`echo true > "$MODULE_ENABLED_RESULT"`:                                                                                         {Enabled: true},
		`printf ' false\n\n' > "$MODULE_ENABLED_RESULT"; echo noise >&2`:                                                               {},
		`echo false > "$MODULE_ENABLED_RESULT"; echo "no GPU here" > "$MODULE_ENABLED_REASON"`:                                         {Reason: "no GPU here"},
		`echo true > "$MODULE_ENABLED_RESULT"; cat "$VALUES_PATH" > "$MODULE_ENABLED_REASON"`:                                          {Enabled: true, Reason: `{"global":{"enabledModules":[]}}`},
		`echo true > "$MODULE_ENABLED_RESULT"; cat "$CONFIG_VALUES_PATH" > "$MODULE_ENABLED_REASON"`:                                   {Enabled: true, Reason: `{"global":{}}`},
		`echo true > "$MODULE_ENABLED_RESULT"; echo "$# $0 $PWD" | sed "s#$(dirname "$0")#DIR#g" > "$MODULE_ENABLED_REASON"`:           {Enabled: true, Reason: "0 DIR/enabled DIR"},
		`echo true > "$MODULE_ENABLED_RESULT"; echo "${BINDING_CONTEXT_PATH-none} $ADDON_OPERATOR_TASK_ID" > "$MODULE_ENABLED_REASON"`: {Enabled: true, Reason: "none 3-1"},
	} {
		enabled, reason, err := r.Enabled(t.Context(), enabledRun(t, body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, answer{Enabled: enabled, Reason: reason}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func TestEnabledScriptWithoutAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	for body, want := range map[string]string{
		`true`:                                                               "MODULE_ENABLED_RESULT: the script wrote nothing, it must write true or false",
		`echo > "$MODULE_ENABLED_RESULT"`:                                    "MODULE_ENABLED_RESULT: the script wrote nothing",
		`echo True > "$MODULE_ENABLED_RESULT"`:                               `MODULE_ENABLED_RESULT: the script wrote "True"`,
		`echo true > "$MODULE_ENABLED_RESULT"; exit 1`:                       "exit status 1",
		`echo "needs module x"; exit 1`:                                      "exit status 1: needs module x",
		`echo out; echo "needs module x" >&2; exit 1`:                        "exit status 1: needs module x",
		`echo out; echo "needs module x" > "$MODULE_ENABLED_REASON"; exit 1`: "exit status 1: needs module x",
	} {
		enabled, _, err := r.Enabled(t.Context(), enabledRun(t, body))
		if want := "enabled script: " + want; err == nil || !strings.HasPrefix(err.Error(), want) || enabled {
			t.Errorf("%s: %t, %v, want %s", body, enabled, err, want)
		}
	}
}

func TestOutputOfEnabledScriptIsPassedOn(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	var out lines
	run := enabledRun(t, `echo a; echo true > "$MODULE_ENABLED_RESULT"`)
	run.Output = out.add
	if _, _, err := r.Enabled(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"stdout: a"}, out.got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
