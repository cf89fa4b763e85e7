package hook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

// script writes an executable bash script with this body, and returns its path. It prevents forks while the file is
// open for writing: a forked process would also have the file open for writing, and the kernel does not execute such a
// file.
func script(t testing.TB, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func newRunner(t testing.TB, options hook.Options) *hook.Runner {
	t.Helper()
	if options.TempDir == "" {
		options.TempDir = t.TempDir()
	}
	r, err := hook.NewRunner(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// scriptRun returns a run of the module hook hooks/sub/x.sh, which is a script with this body.
func scriptRun(t testing.TB, body string) hook.Run {
	t.Helper()
	path := script(t, filepath.Join(t.TempDir(), "modules", "010-some", "hooks", "sub", "x.sh"), body)
	return hook.Run{
		File:   hook.File{Scope: hook.Module, Name: "hooks/sub/x.sh", Path: path},
		Module: "some", Task: "7-12", Attempt: 2, Previous: hook.PreviousInterrupted,
		Context: []byte(`[{"binding":"onStartup"}]`), ConfigValues: []byte(`{"global":{}}`), Values: []byte(`{"some":{"a":1}}`),
	}
}

func TestHookGetsItsInputsAndItsOutputsComeBack(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `
cat "$BINDING_CONTEXT_PATH" "$CONFIG_VALUES_PATH" "$VALUES_PATH"
for f in "$CONFIG_VALUES_JSON_PATCH_PATH" "$VALUES_JSON_PATCH_PATH" "$METRICS_PATH" "$KUBERNETES_PATCH_PATH"; do
  [[ -f $f && ! -s $f ]] || echo "not an empty file: $f"
done
echo '{"op":"add","path":"/some/a","value":1}' > "$CONFIG_VALUES_JSON_PATCH_PATH"
echo '{"op":"add","path":"/some/b","value":2}' >> "$VALUES_JSON_PATCH_PATH"
printf '{"name":"m","set":1}' > "$METRICS_PATH"
echo '{"operation":"Delete"}' > "$KUBERNETES_PATCH_PATH"
`)
	var out lines
	run.Output = out.add
	result, err := r.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`stdout: [{"binding":"onStartup"}]{"global":{}}{"some":{"a":1}}`}, out.got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if got, want := string(result.ConfigPatch), `{"op":"add","path":"/some/a","value":1}`+"\n"; got != want {
		t.Errorf("config patch is %q, want %q", got, want)
	}
	if got, want := string(result.ValuesPatch), `{"op":"add","path":"/some/b","value":2}`+"\n"; got != want {
		t.Errorf("values patch is %q, want %q", got, want)
	}
	if got, want := string(result.Operations), `{"operation":"Delete"}`+"\n"; got != want {
		t.Errorf("operations are %q, want %q", got, want)
	}
	if got, want := string(result.Metrics), `{"name":"m","set":1}`; got != want {
		t.Errorf("metrics are %q, want %q", got, want)
	}
	if result.Usage.MaxRSS < 1<<20 || result.Usage.User+result.Usage.System <= 0 {
		t.Errorf("the usage of a bash script is %+v", result.Usage)
	}
}

func TestHookThatWritesNothingReturnsNothing(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `rm "$METRICS_PATH"; echo noise >&2`)
	result, err := r.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if result.ConfigPatch != nil || result.ValuesPatch != nil || result.Metrics != nil {
		t.Errorf("result is %+v", result)
	}
}

func TestHookRunsAsTheContractSays(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	r := newRunner(t, hook.Options{
		TempDir: temp, ToolsDir: "tools", StoreID: "store-1",
		Env: []string{"PATH=" + os.Getenv("PATH"), "KEPT=yes", "BINDING_CONTEXT_PATH=/stale", "ADDON_OPERATOR_TASK_ID=stale", "MODULE_ENABLED_RESULT=/stale"},
	})
	run := scriptRun(t, `
echo "args $#"
echo "self $0"
echo "cwd $(pwd)"
echo "pwd $PWD"
echo "last on path ${PATH##*:}"
echo "stdin $(cat | wc -c)"
echo "identity $ADDON_OPERATOR_STORE_ID $ADDON_OPERATOR_TASK_ID $ADDON_OPERATOR_ATTEMPT $ADDON_OPERATOR_PREVIOUS"
echo "kept $KEPT"
echo "enabled [${MODULE_ENABLED_RESULT-unset}]"
echo "group $(( $(ps -o pgid= $$) == $$ ))"
env | grep -c ^BINDING_CONTEXT_PATH=
`)
	var out lines
	run.Output = out.add
	if _, err := r.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Abs("tools")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(run.File.Path)
	want := []string{
		"args 0", "self " + run.File.Path, "cwd " + dir, "pwd " + dir, "last on path " + tools, "stdin 0",
		"identity store-1 7-12 2 interrupted", "kept yes", "enabled [unset]", "group 1", "1",
	}
	if diff := cmp.Diff(want, out.of(hook.Stdout)); diff != "" {
		t.Errorf("what the hook sees (-want +got):\n%s", diff)
	}
}

func TestFirstAttemptHasNoPrevious(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `echo "$ADDON_OPERATOR_PREVIOUS"`)
	run.Previous = ""
	var out lines
	run.Output = out.add
	if _, err := r.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"none"}, out.of(hook.Stdout)); diff != "" {
		t.Errorf("previous (-want +got):\n%s", diff)
	}
}

func TestFilesOfARunHaveTheirKnownNames(t *testing.T) {
	t.Parallel()
	const names = `for f in BINDING_CONTEXT_PATH CONFIG_VALUES_PATH VALUES_PATH CONFIG_VALUES_JSON_PATCH_PATH VALUES_JSON_PATCH_PATH METRICS_PATH KUBERNETES_PATCH_PATH; do
  basename "${!f}" | sed -E 's/[0-9a-z]{26}/ID/'
done`
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, names)
	for module, safe := range map[string]string{"some-module": "some-module", "": "global"} {
		run.Module = module
		var out lines
		run.Output = out.add
		if _, err := r.Run(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		want := []string{
			safe + ".module-hook-hooks-sub-x-sh-binding-context-ID.json",
			safe + ".module-config-values-ID.json",
			safe + ".module-values-ID.json",
			"hooks-sub-x-sh.module-hook-config-values-ID.json-patch",
			"hooks-sub-x-sh.module-hook-values-ID.json-patch",
			"hooks-sub-x-sh.module-hook-metrics-ID.json",
			"hooks-sub-x-sh-object-patch-ID",
		}
		if diff := cmp.Diff(want, out.of(hook.Stdout)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

func TestVeryLongNamesStillMakeFiles(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `cat "$BINDING_CONTEXT_PATH" > "$METRICS_PATH"`)
	run.File.Name, run.Module = "hooks/"+strings.Repeat("ü/", 200), strings.Repeat("m", 300)
	result, err := r.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(result.Metrics); got != string(run.Context) {
		t.Errorf("the hook read %q", got)
	}
}

func TestOverwrittenInputsHarmNobody(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `
for f in "$BINDING_CONTEXT_PATH" "$CONFIG_VALUES_PATH" "$VALUES_PATH"; do echo '{"x":1}' > "$f"; done
cat "$VALUES_PATH" > "$VALUES_JSON_PATCH_PATH"`)
	before := string(run.Values)
	for range 2 {
		result, err := r.Run(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(result.ValuesPatch); got != `{"x":1}`+"\n" {
			t.Errorf("the hook read back %q", got)
		}
	}
	if got := string(run.Values); got != before {
		t.Errorf("the caller's values are now %q", got)
	}
}

func TestFilesAreGoneAfterTheRunUnlessKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		temp := t.TempDir()
		r := newRunner(t, hook.Options{TempDir: temp, KeepTemp: keep})
		run := scriptRun(t, `touch "$(dirname "$METRICS_PATH")/extra"; exit 1`)
		if _, err := r.Run(t.Context(), run); err == nil {
			t.Fatal("exit 1 is success")
		}
		left, err := filepath.Glob(filepath.Join(temp, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 0, true: 10}[keep]; len(left) != want {
			t.Errorf("keep %t: %d files are left, want %d: %v", keep, len(left), want, left)
		}
	}
}

func TestFilesOfAKilledOperatorAreSweptByTheNext(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	stale := filepath.Join(temp, "store-s1", "run-1", "values.json")
	foreign := filepath.Join(temp, "store-s2", "run-1", "values.json")
	for _, path := range []string{stale, foreign} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newRunner(t, hook.Options{TempDir: temp, StoreID: "s1"})
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", stale, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another store's file is gone: %v", err)
	}
}

func TestTempDirThatVanishesIsMadeAgain(t *testing.T) {
	t.Parallel()
	temp := filepath.Join(t.TempDir(), "hooks")
	r := newRunner(t, hook.Options{TempDir: temp})
	if err := os.RemoveAll(temp); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), scriptRun(t, "true")); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestFailedHookSaysWhatItWroteToStderr(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 1000)
	for body, want := range map[string]hook.ExitError{
		"exit 3":           {Code: 3, State: "exit status 3"},
		"echo out; exit 1": {Code: 1, State: "exit status 1"},
		"echo '  one'; printf ' two\n\nthree\n\n' >&2; exit 1": {Code: 1, State: "exit status 1", Said: "two\n\nthree"},
		"echo " + long + "end >&2; exit 2":                     {Code: 2, State: "exit status 2", Said: "…" + (long + "end")[len(long)+3-4096:]},
		"echo db password=hunter2 >&2; exit 2":                 {Code: 2, State: "exit status 2", Said: "db password=(redacted)"},
		"kill -9 $$":                                           {Code: -1, State: "signal: killed"},
		"echo bad >&2; kill -TERM $$":                          {Code: -1, State: "signal: terminated", Said: "bad"},
	} {
		r := newRunner(t, hook.Options{})
		_, err := r.Run(t.Context(), scriptRun(t, body))
		var exit *hook.ExitError
		if !errors.As(err, &exit) || errors.Is(err, hook.ErrInterrupted) {
			t.Errorf("%.40q: error is %v, want an exit error", body, err)
			continue
		}
		if diff := cmp.Diff(want, *exit); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", body, diff)
		}
	}
}

func TestErrorOfAFailedHookHasItsExitStatusAndStderr(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*hook.ExitError{
		"exit status 1":           {Code: 1, State: "exit status 1"},
		"exit status 1: no route": {Code: 1, State: "exit status 1", Said: "no route"},
		"signal: killed: oh":      {Code: -1, State: "signal: killed", Said: "oh"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("error reads %q, want %q", got, want)
		}
	}
}

func TestOutputFilesOfAFailedHookAreNotRead(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	result, err := r.Run(t.Context(), scriptRun(t, `echo x | tee "$VALUES_JSON_PATCH_PATH" > "$KUBERNETES_PATCH_PATH"; exit 1`))
	var exit *hook.ExitError
	if !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("error is %v, want exit status 1", err)
	}
	if result.ValuesPatch != nil || result.Operations != nil {
		t.Errorf("values patch is %q, operations are %q", result.ValuesPatch, result.Operations)
	}
}

func TestOutputThatCannotBeTakenIsAnError(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`rm "$KUBERNETES_PATCH_PATH"; mkdir "$KUBERNETES_PATCH_PATH"`:                "KUBERNETES_PATCH_PATH: no longer a regular file; the hook must leave a regular file at this path",
		`rm "$VALUES_JSON_PATCH_PATH"; mkfifo "$VALUES_JSON_PATCH_PATH"`:             "VALUES_JSON_PATCH_PATH: no longer a regular file; the hook must leave a regular file at this path",
		`rm "$METRICS_PATH"; mkdir "$METRICS_PATH"`:                                  "METRICS_PATH: no longer a regular file; the hook must leave a regular file at this path",
		`truncate -s 17M "$CONFIG_VALUES_JSON_PATCH_PATH"; echo x > "$METRICS_PATH"`: "CONFIG_VALUES_JSON_PATCH_PATH: the file has more than the limit of 16 MiB",
	} {
		r := newRunner(t, hook.Options{})
		result, err := r.Run(t.Context(), scriptRun(t, body))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", body, err, want)
		}
		var exit *hook.ExitError
		if errors.As(err, &exit) || result.Metrics != nil {
			t.Errorf("%s: the error says that the hook itself failed, or part of its output is used", body)
		}
	}
}

func TestHookThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		syscall.ForkLock.RLock() // as in script
		defer syscall.ForkLock.RUnlock()
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := newRunner(t, hook.Options{})
	for path, want := range map[string]string{
		write("plain", "#!/bin/sh\n", 0o644):             "not executable",
		write("noshebang", "echo hello\n", 0o755):        "nor a script that begins with #!",
		write("interpreter", "#!/no/such/bash\n", 0o755): "interpreter in its #! line is missing",
		write("dos", "#!/bin/bash\r\necho\r\n", 0o755):   "carriage return",
		filepath.Join(dir, "gone"):                       "no such file",
	} {
		_, err := r.Run(t.Context(), hook.Run{File: hook.File{Name: "x", Path: path}})
		if start := (*hook.StartError)(nil); !errors.As(err, &start) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error is %v, want a StartError with %q and the path", filepath.Base(path), err, want)
		}
	}
}

func TestClosedRunnerStartsNothing(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	r.Close()
	r.Close()
	_, err := r.Run(t.Context(), scriptRun(t, "true"))
	if start := (*hook.StartError)(nil); !errors.As(err, &start) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("run on a closed runner: %v", err)
	}
}

func TestHookOutlivesTheClosingOfItsRunner(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `echo started; read -r < go; echo done > "$METRICS_PATH"`)
	fifo := filepath.Join(filepath.Dir(run.File.Path), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	run.Output = func(hook.Stream, string) {
		r.Close()
		endThreads()
		file, err := os.OpenFile(fifo, os.O_RDWR, 0) // opening only for writing would wait for the hook, which may have been killed
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = file.Close() }) // closed only at the end, so that the hook can read from it
		if _, err := file.WriteString("go\n"); err != nil {
			t.Error(err)
		}
	}
	result, err := r.Run(t.Context(), run)
	if err != nil || string(result.Metrics) != "done\n" {
		t.Errorf("result %q, error %v", result.Metrics, err)
	}
}

func TestManyHooksRunSideBySide(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `cp "$VALUES_PATH" "$METRICS_PATH"`)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			own := run
			own.Values = fmt.Appendf(nil, "%d", i)
			result, err := r.Run(context.Background(), own)
			if err != nil || string(result.Metrics) != fmt.Sprint(i) {
				t.Errorf("run %d: %q, %v", i, result.Metrics, err)
			}
		})
	}
	all.Wait()
}

func TestPythonHookRunsInItsOwnEnvironment(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	venv := filepath.Join(module, "hooks", "venv")
	script(t, filepath.Join(venv, "bin", "python3"), `echo "python $* home $PYTHONHOME"`)
	path := script(t, filepath.Join(module, "hooks", "x.py"), "false")
	files, _, err := hook.Find(hook.Module, module)
	if err != nil || len(files) != 1 {
		t.Fatalf("found %v, %v", files, err)
	}
	var out lines
	r := newRunner(t, hook.Options{})
	if _, err := r.Run(t.Context(), hook.Run{File: files[0], Module: "m", Output: out.add}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"python " + path + " home " + venv}, out.of(hook.Stdout)); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
}

func TestFilesOfARunAreForItsUserOnly(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{StoreID: "s"})
	var out lines
	run := scriptRun(t, `stat -c %a "$(dirname "$VALUES_PATH")" "$VALUES_PATH" "$VALUES_JSON_PATCH_PATH"`)
	run.Output = out.add
	if _, err := r.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"700", "600", "600"}, out.of(hook.Stdout)); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

func TestRunnerNeedsAPlaceForItsFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hook.NewRunner(hook.Options{TempDir: filepath.Join(file, "hooks")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v, want one that names %s", err, file)
	}
}

func TestStartedIsCalledWhileTheHookRuns(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	run := scriptRun(t, `cat "`+pipe+`"`) // cat ends when another process has opened the pipe for writing and closed it
	var out lines
	run.Output = out.add
	run.Started = func() {
		go func() {
			if err := os.WriteFile(pipe, []byte("started\n"), 0o600); err != nil {
				t.Error(err)
			}
		}()
	}
	if _, err := newRunner(t, hook.Options{}).Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if got := out.of(hook.Stdout); !slices.Equal(got, []string{"started"}) {
		t.Errorf("the hook printed %q, want what Started wrote to its pipe", got)
	}
}
