package shell_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFunctionIsFoundByTheNameOfTheBinding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		element string
		names   string // possible function names for the element; the first one that the hook declares is called
	}{
		{`{"binding":"onStartup"}`, "__on_startup"},
		{`{"binding":"beforeAll","snapshots":{}}`, "__on_before_all"},
		{`{"binding":"afterAll","snapshots":{}}`, "__on_after_all"},
		{`{"binding":"beforeHelm","snapshots":{}}`, "__on_before_helm"},
		{`{"binding":"afterHelm","snapshots":{}}`, "__on_after_helm"},
		{`{"binding":"beforeDeleteHelm","snapshots":{}}`, "__on_before_delete_helm"},
		{`{"binding":"afterDeleteHelm","snapshots":{}}`, "__on_after_delete_helm"},
		{`{"binding":"pods","type":"Synchronization","objects":[]}`, "__on_kubernetes::pods::synchronization __on_kubernetes::pods"},
		{`{"binding":"pods","type":"Event","watchEvent":"Added"}`, "__on_kubernetes::pods::added __on_kubernetes::pods::added_or_modified __on_kubernetes::pods"},
		{`{"binding":"pods","type":"Event","watchEvent":"Modified"}`, "__on_kubernetes::pods::modified __on_kubernetes::pods::added_or_modified __on_kubernetes::pods"},
		{`{"binding":"pods","type":"Event","watchEvent":"Deleted"}`, "__on_kubernetes::pods::deleted __on_kubernetes::pods"},
		{`{"binding":"tick","type":"Schedule"}`, "__on_schedule::tick"},
		{`{"binding":"beforeHelm","type":"Schedule"}`, "__on_schedule::beforeHelm"},
		{`{"binding":"pods","type":"Group","groupName":"all","snapshots":{}}`, "__on_group::all __on_group::pods"},
		{`{"binding":"a.b.example.com","type":"Validating","review":{}}`, "__on_validating::a.b.example.com __on_mutating::a.b.example.com"},
		{`{"binding":"a.b.example.com","type":"Mutating","review":{}}`, "__on_mutating::a.b.example.com __on_validating::a.b.example.com"},
		{
			`{"binding":"up","type":"Conversion","fromVersion":"example.com/v1","toVersion":"example.com/v2","review":{}}`,
			"__on_conversion::up::example.com.v1::example.com.v2 __on_conversion::up",
		},
		{`{"binding":"up","type":"Conversion","fromVersion":"v1","toVersion":"v2","review":{}}`, "__on_conversion::up::v1::v2 __on_conversion::up"},
		{`{"binding":"every 5 min's \"x\"\n$(false)","type":"Schedule"}`, "__on_schedule::every_5_min_s__x____false_"},
		{`{"binding":"ns/pods","type":"Schedule"}`, "__on_schedule::ns/pods"},
		{`{"binding":"pods","resourceEvent":"add","resourceName":"x"}`, "__on_kubernetes::pods::added __on_kubernetes::pods::added_or_modified __on_kubernetes::pods"},
		{`{"binding":"pods","resourceEvent":"update","resourceName":"x"}`, "__on_kubernetes::pods::modified __on_kubernetes::pods::added_or_modified __on_kubernetes::pods"},
		{`{"binding":"pods","resourceEvent":"delete","resourceName":"x"}`, "__on_kubernetes::pods::deleted __on_kubernetes::pods"},
		{`{"binding":"every-minute"}`, "__on_schedule::every-minute"},
	}
	for h := range each(t) {
		var want strings.Builder
		for _, test := range tests {
			names := append(strings.Fields(test.names), "__main__")
			h.script += "cat >\"$BINDING_CONTEXT_PATH\" <<'END'\n[" + test.element + "]\nEND\n"
			for _, name := range names {
				h.script += "function " + name + "() { echo \"$BINDING_CONTEXT_CURRENT_TYPE " + name + "\"; }\n"
			}
			var element struct {
				Type string `json:"type"`
			}
			if err := json.Unmarshal([]byte(test.element), &element); err != nil {
				t.Fatal(err)
			}
			// If all functions are declared, the first one is called. After the script has deleted the first one, the
			// next one is called.
			for _, name := range names {
				h.script += "hook::run \"$@\"\nunset -f " + name + "\n"
				want.WriteString(element.Type + " " + name + "\n")
			}
		}
		h.want(t, want.String())
	}
}

func TestElementWithoutFunctionFailsAndNamesThoseThatWouldDo(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.script = "hook::run\n"
		h.files = map[string]string{"BINDING_CONTEXT_PATH": `[{"binding":"every minute","type":"Schedule"}]`}
		r := h.run(t)
		if r.code == 0 || !strings.Contains(r.stderr, "functions __on_schedule::every_minute, __main__ for binding 'every minute'") {
			t.Errorf("exit status %d, said:\n%s", r.code, r.stderr)
		}
	}
}

func TestEveryElementIsTakenUntilOneFails(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.files = map[string]string{"BINDING_CONTEXT_PATH": `[{"binding":"a"},{"binding":"b"},{"binding":"c"}]`}
		h.script = `
			seen=0
			__main__() {
				seen=$((seen + 1))
				echo "$BINDING_CONTEXT_CURRENT_INDEX $BINDING_CONTEXT_CURRENT_BINDING $(context::jq -r .binding) $seen"
				[[ $BINDING_CONTEXT_CURRENT_BINDING != b ]]
				echo good
			}
			hook::run "$@"
			echo behind`
		r := h.run(t)
		if want := "0 a a 1\ngood\n1 b b 1\n"; r.code != 1 || r.stdout != want {
			t.Errorf("exit status %d, printed %q, want 1 and %q", r.code, r.stdout, want)
		}
		if !strings.Contains(r.stderr, "exit status 1") || !strings.Contains(r.stderr, "a hook.sh:8: in __main__: [[ $BINDING") {
			t.Errorf("the error does not say where it was:\n%s", r.stderr)
		}
	}
}

func TestNoElementsAreNothingToDo(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.files = map[string]string{"BINDING_CONTEXT_PATH": "[]"}
		h.script = "hook::run\necho behind"
		h.want(t, "behind\n")
	}
}

func TestExitStatusOfAFunctionIsThatOfTheHook(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.files = map[string]string{"BINDING_CONTEXT_PATH": `[{"binding":"onStartup"}]`}
		h.script = "__main__() { exit 7; }\nhook::run"
		if r := h.run(t); r.code != 7 || r.stderr != "" {
			t.Errorf("exit status %d, said %q, want 7 and nothing", r.code, r.stderr)
		}
	}
}

func TestConfigIsPrintedWithoutABindingContext(t *testing.T) {
	t.Parallel()
	h := hook{
		script: "__config__() { echo 'configVersion: v1'; }\nhook::run $@\necho never", args: []string{"--config"},
		env: []string{"BINDING_CONTEXT_PATH="},
	}
	h.want(t, "configVersion: v1\n")
}

func TestRunByHandSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := hook{script: "hook::run", env: []string{"BINDING_CONTEXT_PATH="}}
	if r := h.run(t); r.code == 0 || !strings.Contains(r.stderr, "BINDING_CONTEXT_PATH") {
		t.Errorf("exit status %d, said:\n%s", r.code, r.stderr)
	}
}

func TestCommandThatFailsEndsTheHook(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"false; echo on",
		"x=$(false; echo on); echo \"$x\"",
		"false | cat; echo on",
		"echo \"$no_such_variable\"; echo on",
		"for f in /no/such/dir/*; do echo on; done",
		"f() { false; echo on; }; f",
	} {
		h := hook{script: script}
		if r := h.run(t); r.code == 0 || strings.Contains(r.stdout, "on") {
			t.Errorf("%s: exit status %d, printed %q", script, r.code, r.stdout)
		}
	}
}

// The framework also loads files that an image adds to its directory.
func TestFrameworkTakesFilesThatAnImageAdds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "frameworks", "shell", "ours.sh"), []byte("ours::say() { echo ours; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", "source '"+dir+"/shell_lib.sh'; ours::say").CombinedOutput()
	if err != nil || string(out) != "ours\n" {
		t.Errorf("%v: %s", err, out)
	}
}
