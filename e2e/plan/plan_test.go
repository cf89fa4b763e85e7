// Package plan_test makes random edits of modules, whose charts are similar to public charts. After each edit it makes
// a plan, lets the operator converge, and compares the plan with the changes of the converge, object by object.
package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/cmd/addon-operator/planner"
	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
	"addon-operator/internal/dryrun"
	"addon-operator/workflow/inspect"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// program builds the operator from the current source at the first call, and returns the path of the program.
var program = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../bin/plan")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	return operator.Build(dir)
})

// TestPlansAgreeWithTheConverge makes random edits of the modules in testdata. The plan of each edit must have the same
// changes as the converge after it. The environment variable PLAN_EDITS is the number of edits, 6 by default. PLAN_SEED
// is the seed.
func TestPlansAgreeWithTheConverge(t *testing.T) {
	agree(t, 6, newEnvironment)
}

// TestPlansAgreeWithTheConvergeOfTheSamples does the same with the sample modules, which have hooks. The environment
// variable PLAN_EDITS is the number of edits, 3 by default. PLAN_SEED is the seed.
func TestPlansAgreeWithTheConvergeOfTheSamples(t *testing.T) {
	agree(t, 3, newSamples)
}

// agree makes random edits in an environment, and compares the plan of each edit with the converge after it.
func agree(t *testing.T, edits int, prepare func(*testing.T, *rand.Rand) *environment) {
	t.Helper()
	edits, seed := number(t, "PLAN_EDITS", edits), number(t, "PLAN_SEED", 1)
	w := prepare(t, rand.New(rand.NewPCG(uint64(seed), 0)))
	w.start()
	w.stop()
	t.Logf("seed %d", seed)
	for n := range edits {
		what := w.edit()
		t.Logf("edit %d: %s", n, what)
		w.check(fmt.Sprintf("edit %d (%s)", n, what), n%2 == 0)
		if t.Failed() {
			t.Fatalf("repeat with PLAN_SEED=%d PLAN_EDITS=%d; the log ends with\n%s", seed, n+1, w.site.EndOfLog())
		}
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// check makes a plan, lets the operator converge, and compares the plan with the changes. If the argument live is true,
// a running operator makes the plan. Otherwise the command plan makes it without an operator.
func (w *environment) check(what string, live bool) {
	w.t.Helper()
	var before map[string]map[string]any
	var plan *inspect.Plan
	var code int
	if live {
		before, plan, code = w.planLive()
	} else {
		before = w.objects()
		plan, code = w.planAlone()
	}
	if diff := cmp.Diff(before, w.objects()); diff != "" {
		w.t.Fatalf("%s: the plan changed objects (-before +after):\n%s", what, diff)
	}
	w.putConfig()
	w.start()
	after := w.objects()
	planned, happened := changesOf(plan), w.changes(before, after)
	if diff := cmp.Diff(planned, happened); diff != "" {
		w.t.Errorf("%s: objects (-planned +happened):\n%s", what, diff)
	}
	if want := exitCode(plan); code != want {
		w.t.Errorf("%s: exit code %d, want %d", what, code, want)
	}
	if len(happened) > 0 && code != 2 {
		w.t.Errorf("%s: %d objects changed, and the exit code is %d", what, len(happened), code)
	}
	if again, code := w.run(); code != 0 {
		w.t.Errorf("%s: the plan after the converge has exit code %d: %v", what, code, changesOf(again))
	}
	w.stop()
}

func exitCode(p *inspect.Plan) int {
	if p.Changes {
		return 2
	}
	return 0
}

// changesOf returns the planned action on each object, with the changed fields and their old and new values.
func changesOf(p *inspect.Plan) map[string]string {
	changes := map[string]string{}
	for _, m := range p.Modules {
		for _, o := range slices.Concat(m.CRDs, m.Objects) {
			text := o.Action
			if o.Action == inspect.ObjectHandedOver {
				text = inspect.ObjectChanged
			}
			changes[o.String()] = text + fieldsText(o.Fields)
		}
	}
	return changes
}

func uidOf(o map[string]any) string {
	metadata, _ := o["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	return uid
}

// fieldsText returns the paths of changed fields, with their old and new values, as one text.
func fieldsText(fields []inspect.FieldChange) string {
	var texts []string
	for _, f := range fields {
		texts = append(texts, fmt.Sprintf(" %s: %v → %v", f.Path, f.Old, f.New))
	}
	return strings.Join(texts, "")
}

// changes returns how each object differs between before and after, in the form of changesOf. An object that was
// deleted and created again is reported as created.
func (w *environment) changes(before, after map[string]map[string]any) map[string]string {
	changes := map[string]string{}
	for name, was := range before {
		is, exists := after[name]
		if !exists {
			changes[name] = inspect.ObjectDeleted
			continue
		}
		if uidOf(was) != uidOf(is) {
			changes[name] = inspect.ObjectCreated
			continue
		}
		fields, err := planner.FieldChanges(dryrun.Content(was), dryrun.Content(is), func(v any) (any, error) { return v, nil })
		if err != nil {
			w.t.Fatal(err)
		}
		if len(fields) > 0 {
			changes[name] = inspect.ObjectChanged + fieldsText(fields)
		}
	}
	for name := range after {
		if _, existed := before[name]; !existed {
			changes[name] = inspect.ObjectCreated
		}
	}
	return changes
}

// planLive starts the operator with the files of the last converge, and requests from it a plan for the edited files.
// The objects in before are those from which the plan was made, because the start may have restored deleted objects.
func (w *environment) planLive() (before map[string]map[string]any, plan *inspect.Plan, code int) {
	next := filepath.Join(w.site.Dir, "next")
	w.must(os.RemoveAll(next))
	w.must(os.CopyFS(next, os.DirFS(w.modules)))
	w.must(os.Rename(w.modules, w.modules+".edited"))
	w.must(os.CopyFS(w.modules, os.DirFS(w.modules+".last")))
	w.start()
	before = w.objects()
	plan, code = w.run("--modules-dir", next, "--config-map", w.configFile())
	w.stop()
	w.must(os.RemoveAll(w.modules))
	w.must(os.Rename(w.modules+".edited", w.modules))
	return before, plan, code
}

// planAlone makes a plan for the edited files with the command plan, which reads the store of the stopped operator.
func (w *environment) planAlone() (*inspect.Plan, int) {
	return w.run("--kube-config", w.site.Kubeconfig, "--namespace", w.site.Namespace, "--store", w.site.Store(),
		"--modules-dir", w.modules, "--global-hooks-dir", w.site.GlobalHooksDir, "--config-map", w.configFile())
}

// run runs the command plan, and returns the plan and the exit code.
func (w *environment) run(flags ...string) (*inspect.Plan, int) {
	w.t.Helper()
	args := append([]string{"plan", "-o", "json", "--show-secrets"}, flags...)
	if !slices.Contains(flags, "--store") {
		args = append(args, "--debug-unix-socket", w.site.Socket())
	}
	command := exec.Command(w.site.Program, args...)
	command.Dir = w.site.Dir
	var errs strings.Builder
	command.Stderr = &errs
	body, err := command.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	plan := new(inspect.Plan)
	if err := json.Unmarshal(body, plan); err != nil {
		w.t.Fatalf("%v: %v\n%s%s", args, err, body, errs.String())
	}
	return plan, command.ProcessState.ExitCode()
}
