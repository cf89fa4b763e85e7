package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/sdk"
)

// TestMain runs this test program as a hook if an environment variable requests it.
func TestMain(m *testing.M) {
	if os.Getenv("BE_A_HOOK") != "" {
		sdk.Main(sdk.Hook{Config: sdk.Config{OnStartup: new(5)}, Run: func(_ context.Context, r *sdk.Run) error {
			r.Log.Info("it runs", "attempt", r.Attempt)
			r.Values.Set("web.on", true)
			return nil
		}})
	}
	os.Exit(m.Run())
}

// files are the contents of the files of a run, by the environment variables that name the files.
type files map[string]string

// env writes the files. It returns the environment that names the files, and a function that reads
// them.
func (f files) env(t *testing.T) (env []string, read func() files) {
	t.Helper()
	dir := t.TempDir()
	for _, variable := range []string{
		"BINDING_CONTEXT_PATH", "VALUES_PATH", "CONFIG_VALUES_PATH", "VALUES_JSON_PATCH_PATH", "CONFIG_VALUES_JSON_PATCH_PATH",
		"METRICS_PATH", "KUBERNETES_PATCH_PATH", "ADMISSION_RESPONSE_PATH", "CONVERSION_RESPONSE_PATH",
	} {
		content := f[variable]
		if content == "" && strings.HasSuffix(variable, "VALUES_PATH") {
			content = "{}"
		}
		if content == "" && variable == "BINDING_CONTEXT_PATH" {
			content = `[{"binding":"onStartup"}]`
		}
		path := filepath.Join(dir, variable)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		env = append(env, variable+"="+path)
	}
	return env, func() files {
		written := files{}
		for _, variable := range env {
			name, path, _ := strings.Cut(variable, "=")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(content) > 0 && !strings.HasSuffix(name, "VALUES_PATH") && name != "BINDING_CONTEXT_PATH" {
				written[name] = string(content)
			}
		}
		return written
	}
}

// run runs a hook whose function is do. It returns the files that the hook has written, its exit
// code, and its error output.
func (f files) run(t *testing.T, do func(r *sdk.Run) error) (written files, code int, stderr string) {
	t.Helper()
	env, read := f.env(t)
	var out, err bytes.Buffer
	hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error { return do(r) }}
	code = hook.Execute(t.Context(), nil, env, &out, &err)
	return read(), code, err.String()
}

// documents decodes consecutive JSON values.
func documents(t *testing.T, text string) (all []any) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var document any
		if err := d.Decode(&document); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		all = append(all, document)
	}
	return all
}

func sameFiles(t *testing.T, want, got files) {
	t.Helper()
	parsed := func(f files) map[string][]any {
		all := map[string][]any{}
		for name, text := range f {
			all[name] = documents(t, text)
		}
		return all
	}
	if diff := cmp.Diff(parsed(want), parsed(got)); diff != "" {
		t.Errorf("wrote (-want +got):\n%s", diff)
	}
}

func TestProgramIsAHook(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env, read := files{}.env(t)
	env = append(env, "BE_A_HOOK=yes", "ADDON_OPERATOR_ATTEMPT=2")
	config := exec.CommandContext(t.Context(), program, "--config")
	config.Env = env[len(env)-2:] // when it calls a hook with --config, the operator passes no files
	out, err := config.Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(documents(t, `{"configVersion":"v1","onStartup":5}`), documents(t, string(out))); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	run := exec.CommandContext(t.Context(), program)
	run.Env = env
	if out, err = run.Output(); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(out, &line); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	delete(line, "time")
	if diff := cmp.Diff(map[string]any{"level": "info", "msg": "it runs", "attempt": 2.0}, line); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	sameFiles(t, files{"VALUES_JSON_PATCH_PATH": `{"op":"add","path":"/web/on","value":true}`}, read())
}

func TestRunThatFailsWritesNothing(t *testing.T) {
	t.Parallel()
	collect := func(r *sdk.Run) {
		r.Values.Set("web.a", 1)
		r.ConfigValues.Set("web.a", 1)
		r.Metrics.Set("m", 1, nil)
		r.Objects.Delete(sdk.Ref{Kind: "Pod", Name: "a"})
		r.Allow()
		r.Converted(map[string]any{})
	}
	for name, test := range map[string]struct {
		do   func(r *sdk.Run) error
		said string
	}{
		"an error": {func(*sdk.Run) error { return errors.New("no such thing") }, "no such thing\n"},
		"a panic": {func(*sdk.Run) error {
			panic("no such luck")
		}, "hook_test.go"},
		"a bad path":             {func(r *sdk.Run) error { r.Values.Set("web..a", 1); return nil }, `set web..a: path "web..a": a key is missing`},
		"a value without form":   {func(r *sdk.Run) error { r.Values.Set("web.f", func() {}); return nil }, "set web.f: json: unsupported type"},
		"a path through text":    {func(r *sdk.Run) error { r.Values.Set("web.text.a", 1); return nil }, "web.text is neither an object nor a list"},
		"an index that is none":  {func(r *sdk.Run) error { r.ConfigValues.Set("web.list.7", 1); return nil }, `"7" is not an index of a list of length 1`},
		"an object of no kind":   {func(r *sdk.Run) error { r.Objects.Create(map[string]any{"a": 1}); return nil }, "Create: the object has no kind"},
		"an object that is none": {func(r *sdk.Run) error { r.Objects.Create("text"); return nil }, "Create: the value is not an object"},
		"a patch of nothing":     {func(r *sdk.Run) error { r.Objects.JQPatch(sdk.Ref{Kind: "Pod"}, "."); return nil }, "a kind and a name are needed"},
		"a metric of no number":  {func(r *sdk.Run) error { r.Metrics.Set("m", nan(), nil); return nil }, "metrics: json: unsupported value"},
		"an empty conversion":    {func(r *sdk.Run) error { r.Converted(); return nil }, "neither objects nor a message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const values = `{"web":{"text":"t","list":[1]}}`
			written, code, stderr := files{"VALUES_PATH": values, "CONFIG_VALUES_PATH": values}.run(t, func(r *sdk.Run) error {
				collect(r)
				return test.do(r)
			})
			if code != 1 || !strings.Contains(stderr, test.said) {
				t.Errorf("exit code %d, said:\n%s\nwant 1 and %s", code, stderr, test.said)
			}
			sameFiles(t, files{}, written)
		})
	}
}

func nan() float64 {
	var zero float64
	return zero / zero
}

func TestBadFilesAndArgumentsAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files files
		said  string
	}{
		"no context": {files{"BINDING_CONTEXT_PATH": "{"}, "BINDING_CONTEXT_PATH"},
		"no values":  {files{"VALUES_PATH": "[]"}, "VALUES_PATH"},
	} {
		_, code, stderr := test.files.run(t, func(*sdk.Run) error { return nil })
		if code != 1 || !strings.HasPrefix(stderr, test.said) {
			t.Errorf("%s: exit code %d, said: %s", name, code, stderr)
		}
	}
	hook := sdk.Hook{}
	for message, test := range map[string]struct{ args, env []string }{
		`(got "hook")`:                {args: []string{"hook", "list"}},
		"BINDING_CONTEXT_PATH is not": {},
		"no such file":                {env: []string{"BINDING_CONTEXT_PATH=/no/such"}},
	} {
		var out, err bytes.Buffer
		if code := hook.Execute(t.Context(), test.args, test.env, &out, &err); code != 1 || !strings.Contains(err.String(), message) {
			t.Errorf("%v %v: exit code %d, said: %s", test.args, test.env, code, &err)
		}
	}
}

// An operator that has no values, such as shell-operator, passes no values files.
func TestChangeThatCannotBeHandedOverFails(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	for change, message := range map[bool]string{false: "", true: "VALUES_JSON_PATCH_PATH is not set, so the collected output"} {
		hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error {
			if change {
				r.Values.Set("web.a", 1)
			}
			return nil
		}}
		var out, err bytes.Buffer
		code := hook.Execute(t.Context(), nil, env[:1], &out, &err)
		if (code != 0) != change || !strings.HasPrefix(err.String(), message) {
			t.Errorf("changed: %t, exit code %d, said: %s", change, code, &err)
		}
	}
}

func TestRunKnowsOfAnInterruption(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	for previous, want := range map[string]bool{"none": false, "failed": false, "interrupted": true} {
		var got bool
		hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error { got = r.Interrupted; return nil }}
		hook.Execute(t.Context(), nil, append(env, "ADDON_OPERATOR_PREVIOUS="+previous), &bytes.Buffer{}, &bytes.Buffer{})
		if got != want {
			t.Errorf("previous %s: interrupted is %t", previous, got)
		}
	}
}
