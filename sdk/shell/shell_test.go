package shell_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq/cli"
)

// TestMain makes this test program act as the jq that is in the operator's image, if it is called by the name jq.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "jq" {
		os.Exit(cli.Run())
	}
	os.Exit(m.Run())
}

// jqs returns the directories of the jq programs with which scripts are tested. The key "shipped" is the jq in the
// operator's image, and "system" is the jq of this system, if it is installed.
func jqs(t *testing.T) map[string]string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shipped := t.TempDir()
	if err := os.Symlink(program, filepath.Join(shipped, "jq")); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{"shipped": shipped}
	if system, err := exec.LookPath("jq"); err == nil {
		found["system"] = filepath.Dir(system)
	}
	return found
}

// A hook is a script that uses the framework. It runs as on a system where the framework is not installed.
type hook struct {
	jq     string // the directory of jq
	name   string // describes the jq program
	script string
	with   []string // the command that runs the script; bash if empty
	args   []string
	// files are the contents of the input files of a run, by the environment variables with their paths.
	files map[string]string
	env   []string
}

// A result is what a run of a hook has printed and written.
type result struct {
	stdout, stderr string
	code           int
	files          map[string]string
}

func (h hook) run(t *testing.T) result {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "a hook.sh")
	script := h.script
	if !strings.HasPrefix(script, "#!") {
		script = "#!/usr/bin/env bash\nsource /shell_lib.sh\n" + script
	}
	with := h.with
	if with == nil {
		with = []string{"bash"}
	}
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := filepath.Abs("bash_env.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), with[0], append(append(with[1:], path), h.args...)...)
	cmd.Env = append(cmd.Environ(), "PATH="+h.jq+":"+os.Getenv("PATH"), "BASH_ENV="+env)
	cmd.Dir = dir
	files := map[string]string{}
	for _, variable := range []string{
		"BINDING_CONTEXT_PATH", "VALUES_PATH", "CONFIG_VALUES_PATH", "VALUES_JSON_PATCH_PATH", "CONFIG_VALUES_JSON_PATCH_PATH",
		"KUBERNETES_PATCH_PATH",
	} {
		files[variable] = filepath.Join(dir, strings.ToLower(variable))
		if err := os.WriteFile(files[variable], []byte(h.files[variable]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, variable+"="+files[variable])
	}
	cmd.Env = append(cmd.Env, h.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	r := result{files: map[string]string{}}
	if err := cmd.Run(); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		r.code = exit.ExitCode()
	}
	r.stdout, r.stderr = stdout.String(), stderr.String()
	for variable, file := range files {
		content, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		r.files[variable] = string(content)
	}
	return r
}

// want runs the hook, and fails the test if the hook fails or if its standard output differs from stdout.
func (h hook) want(t *testing.T, stdout string) result {
	t.Helper()
	r := h.run(t)
	if r.code != 0 {
		t.Fatalf("%s jq: exit status %d\n%s", h.name, r.code, r.stderr)
	}
	if diff := cmp.Diff(stdout, r.stdout); diff != "" {
		t.Errorf("%s jq: printed (-want +got):\n%s", h.name, diff)
	}
	return r
}

// wantEach runs a hook with calls in its function for the binding pods, and compares the output of each call with the
// text in wants.
func (h hook) wantEach(t *testing.T, calls, wants []string) {
	t.Helper()
	const end = "\x1e"
	h.script = "__main__() { :; }\n__on_kubernetes::pods() {\n" + strings.Join(calls, "\nprintf '\\x1e'\n") + "\n}\nhook::run"
	r := h.run(t)
	printed := strings.Split(r.stdout, end)
	if r.code != 0 || len(printed) != len(calls) {
		t.Fatalf("%s jq: exit status %d behind %s\n%s", h.name, r.code, calls[len(printed)-1], r.stderr)
	}
	for i, call := range calls {
		if diff := cmp.Diff(wants[i]+"\n", printed[i]); diff != "" {
			t.Errorf("%s jq: %s (-want +got):\n%s", h.name, call, diff)
		}
	}
}

// wantWritten runs calls one after another, and compares the text that each call writes to a file with the element of
// wants at the same index. The argument variable is the environment variable with the path of the file.
func (h hook) wantWritten(t *testing.T, variable string, calls, wants []string) {
	t.Helper()
	const end = "\n\"end\"\n"
	for _, call := range calls {
		h.script += call + "\nprintf '\\n\"end\"\\n' >>\"$" + variable + "\"\n"
	}
	written := strings.Split(h.want(t, "").files[variable], end)
	if len(written) != len(calls)+1 {
		t.Fatalf("%s jq: there are %d of %d ends", h.name, len(written)-1, len(calls))
	}
	for i, call := range calls {
		if diff := cmp.Diff(documents(t, wants[i]), documents(t, written[i])); diff != "" {
			t.Errorf("%s jq: %s (-want +got):\n%s", h.name, call, diff)
		}
	}
}

// documents decodes consecutive JSON values.
func documents(t *testing.T, text string) []any {
	t.Helper()
	var all []any
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var document any
		if err := d.Decode(&document); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		all = append(all, document)
	}
	return all
}

// sameJSON fails the test if two texts do not contain the same sequence of JSON values.
func sameJSON(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(documents(t, want), documents(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The function each yields hooks without a script: one for every jq program that [jqs] returns.
func each(t *testing.T) iter.Seq[hook] {
	t.Helper()
	return func(yield func(hook) bool) {
		for name, dir := range jqs(t) {
			if !yield(hook{jq: dir, name: name}) {
				return
			}
		}
	}
}
