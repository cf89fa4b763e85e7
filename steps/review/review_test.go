package review_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/internal/values"
	"addon-operator/internal/webhook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/hooks"
	"addon-operator/steps/objects"
	"addon-operator/steps/report"
	"addon-operator/steps/review"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// config is the configuration of the hook of a fixture.
const config = `{"configVersion":"v1",
"kubernetesValidating":[{"name":"check.example.com","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}],
"kubernetesMutating":[{"name":"change.example.com","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}],
"kubernetesCustomResourceConversion":[{"name":"up","crdName":"things.x.io","conversions":[{"fromVersion":"v1","toVersion":"v2"}]}]}`

// runs is an observer that records the runs of hooks.
type runs struct {
	hookrun.Silent
	seen []string
}

func (r *runs) HookRan(run report.Run) {
	text := fmt.Sprintf("%s %s", run.Task.Subject, run.Binding)
	if run.Err != nil {
		text += ": " + run.Err.Error()
	}
	r.seen = append(r.seen, text)
}

// A fixture has the module web with one hook, whose bindings are attached.
type fixture struct {
	*review.Webhooks
	state *scan.State
	hooks *hookrun.Hooks
	runs  *runs
	dir   string // for files of the hook
	path  string // of the hook
}

// hooked returns a fixture whose hook runs these lines of shell for a review. In the lines, $DIR is a directory for
// files of the hook.
func hooked(t *testing.T, lines string) *fixture {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	f := &fixture{dir: t.TempDir(), runs: &runs{}}
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}\n")
	f.path = scantest.Program(t, mounted, "010-web/hooks/x.sh", "#!/bin/sh\nif [ \"$1\" = --config ]; then\ncat <<'END'\n"+config+"\nEND\nexit\nfi\nDIR="+f.dir+"\n"+lines+"\n")
	f.state = scan.New(o, nil)
	scantest.Scan(t, f.state)
	runner := scantest.Runner(t)
	f.hooks = hookrun.New(hookrun.Options{Runner: runner, Options: hookio.Options{Objects: objects.New(f.state.DB, unreachable(t))}}, f.state, nil, f.runs)
	out, err := f.hooks.Configs.AskModule(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	var found hooks.Found
	if err := json.Unmarshal(out.Data, &found); err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, f.state.DB, func(tx *store.Tx) error {
		if _, err := found.Save(tx, "web"); err != nil {
			return err
		}
		all, err := bindings.LoadHooks(tx, "web")
		if err != nil {
			return err
		}
		_, err = bindings.Attach(tx, "web", all)
		return err
	})
	f.Webhooks = &review.Webhooks{
		DB: f.state.DB, Log: f.state.Log, Runner: runner, Bindings: f.hooks.Bindings, Exchange: f.hooks.Exchange, Observer: f.runs,
	}
	return f
}

// unreachable returns an executor whose API server does not respond.
func unreachable(t *testing.T) *operation.Executor {
	t.Helper()
	client, err := kube.NewClient(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	executor, err := operation.NewExecutor(client, kube.NewKinds(client, kube.Observer{}), operation.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return executor
}

// request returns a review request for the hook of a fixture.
func request(t hook.Type) webhook.ReviewRequest {
	binding := map[hook.Type]string{hook.TypeValidating: "check.example.com", hook.TypeMutating: "change.example.com", hook.TypeConversion: "up"}[t]
	q := webhook.ReviewRequest{
		Asked: webhook.Asked{Module: "web", Hook: "hooks/x.sh", Binding: binding},
		Type:  t, UID: "u-1", Review: json.RawMessage(`{"request":{"uid":"u-1"}}`),
	}
	if t == hook.TypeConversion {
		q.FromVersion, q.ToVersion, q.Version = "v1", "v2", "x.io/v2"
		q.Objects = []json.RawMessage{json.RawMessage(`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a"}}`)}
	}
	return q
}

func (f *fixture) saved(t *testing.T) []string {
	t.Helper()
	var paths []string
	if err := f.DB.View(func(tx *store.Tx) error {
		for _, section := range []string{"web", values.Global} {
			saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
			if err != nil {
				return err
			}
			for _, s := range saved {
				paths = append(paths, s.Path+" by "+s.Hook)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// Lines of shell for hooks.
const (
	setSize = `echo '[{"op":"add","path":"/web/size","value":2}]' >$VALUES_JSON_PATCH_PATH` + "\n"
	allow   = `echo '{"allowed":true}' >$ADMISSION_RESPONSE_PATH` + "\n"
)

func TestAHookAnswersEachTypeOfReview(t *testing.T) {
	t.Parallel()
	patch := json.RawMessage(`[{"op":"add","path":"/a","value":1}]`)
	object := json.RawMessage(`{"apiVersion":"x.io/v2","kind":"Thing","metadata":{"name":"a"}}`)
	for name, test := range map[string]struct {
		lines   string
		request webhook.ReviewRequest
		want    webhook.Answer
		run     string
	}{
		"allowed": {
			`echo '{"allowed":true,"warnings":["w"]}' >$ADMISSION_RESPONSE_PATH`, request(hook.TypeValidating),
			webhook.Answer{Verdict: hook.Verdict{Allowed: true, Warnings: []string{"w"}}},
			"web/hooks/x.sh check.example.com kubernetesValidating",
		},
		"denied": {
			`echo '{"allowed":false,"message":"no"}' >$ADMISSION_RESPONSE_PATH`, request(hook.TypeValidating),
			webhook.Answer{Verdict: hook.Verdict{Message: "no"}},
			"web/hooks/x.sh check.example.com kubernetesValidating",
		},
		"changed": {
			`echo '{"allowed":true,"patch":"` + base64.StdEncoding.EncodeToString(patch) + `"}' >$ADMISSION_RESPONSE_PATH`, request(hook.TypeMutating),
			webhook.Answer{Verdict: hook.Verdict{Allowed: true, Patch: patch}},
			"web/hooks/x.sh change.example.com kubernetesMutating",
		},
		"converted": {
			`echo '{"convertedObjects":[` + string(object) + `]}' >$CONVERSION_RESPONSE_PATH`, request(hook.TypeConversion),
			webhook.Answer{Converted: hook.Converted{Objects: []json.RawMessage{object}}},
			"web/hooks/x.sh up kubernetesCustomResourceConversion",
		},
		"not converted": {
			`echo '{"failedMessage":"size is missing"}' >$CONVERSION_RESPONSE_PATH`, request(hook.TypeConversion),
			webhook.Answer{Converted: hook.Converted{Failed: "size is missing"}},
			"web/hooks/x.sh up kubernetesCustomResourceConversion",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hooked(t, test.lines)
			got, err := f.Answer(t.Context(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff([]string{test.run}, f.runs.seen); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHookGetsTheReviewAsItsBindingContext(t *testing.T) {
	t.Parallel()
	f := hooked(t, "cat $BINDING_CONTEXT_PATH >$DIR/context\ncat $VALUES_PATH >$DIR/values\n"+allow)
	if _, err := f.Answer(t.Context(), request(hook.TypeValidating)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"context": `[{"binding":"check.example.com","type":"Validating","review":{"request":{"uid":"u-1"}}}]`,
		"values":  `{"global":{"enabledModules":[]},"web":{"size":1}}`,
	} {
		text, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(want), &wanted)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestValuesOfAReviewAreSavedUnlessItIsADryRun(t *testing.T) {
	t.Parallel()
	const own, global = `{"op":"add","path":"/web/size","value":2}`, `{"op":"add","path":"/global/size","value":2}`
	const metric = `echo '{"name":"reviews","action":"set","value":1}' >$METRICS_PATH` + "\n"
	for name, test := range map[string]struct {
		patch, more string
		want        []string
	}{
		"of the module":               {own, "", []string{"/web/size by web/hooks/x.sh"}},
		"global":                      {global, "", []string{"/global/size by web/hooks/x.sh"}},
		"global, and a metric":        {global, metric, []string{"/global/size by web/hooks/x.sh"}},
		"of the module, and global":   {own + "," + global, "", []string{"/web/size by web/hooks/x.sh", "/global/size by web/hooks/x.sh"}},
		"of the module, and a metric": {own, metric, []string{"/web/size by web/hooks/x.sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hooked(t, "echo '["+test.patch+"]' >$VALUES_JSON_PATCH_PATH\n"+test.more+allow)
			q := request(hook.TypeValidating)
			q.DryRun = true
			if _, err := f.Answer(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if got := f.saved(t); got != nil {
				t.Errorf("a dry run saved %q", got)
			}
			q.DryRun = false
			if _, err := f.Answer(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, f.saved(t)); diff != "" {
				t.Errorf("saved (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAHookThatFailsInAReviewSavesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines   string
		request webhook.ReviewRequest
		want    string
	}{
		"exit status":          {setSize + allow + "echo broken >&2\nexit 3", request(hook.TypeValidating), "exit status 3"},
		"no JSON":              {setSize + "echo no >$ADMISSION_RESPONSE_PATH", request(hook.TypeValidating), "$ADMISSION_RESPONSE_PATH: it is not the expected JSON object"},
		"patch of a validator": {setSize + `echo '{"allowed":true,"patch":[{"op":"remove","path":"/a"}]}' >$ADMISSION_RESPONSE_PATH`, request(hook.TypeValidating), "$ADMISSION_RESPONSE_PATH: patch: a kubernetesValidating hook cannot change the object"},
		"too few objects":      {setSize + `echo '{"convertedObjects":[]}' >$CONVERSION_RESPONSE_PATH`, request(hook.TypeConversion), "$CONVERSION_RESPONSE_PATH: convertedObjects: there are 0 objects, and 1 in the request"},
		"ConfigMap":            {setSize + allow + `echo '[{"op":"add","path":"/web/size","value":3}]' >$CONFIG_VALUES_JSON_PATCH_PATH`, request(hook.TypeValidating), "$CONFIG_VALUES_JSON_PATCH_PATH: a hook that answers the API server cannot write the ConfigMap; patch the values"},
		"damaged values patch": {"echo x >$VALUES_JSON_PATCH_PATH\n" + allow, request(hook.TypeValidating), "$VALUES_JSON_PATCH_PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hooked(t, test.lines)
			_, err := f.Answer(t.Context(), test.request)
			head := "hook failed: web/hooks/x.sh " + test.request.Binding + ": "
			if !errors.Is(err, webhook.ErrHookFailed) || !strings.HasPrefix(err.Error(), head) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s… %s", err, head, test.want)
			}
			if got := f.saved(t); got != nil {
				t.Errorf("it saved %q", got)
			}
			if len(f.runs.seen) != 1 || !strings.Contains(f.runs.seen[0], test.want) {
				t.Errorf("reported are %q", f.runs.seen)
			}
		})
	}
}

// If a hook is not started, or its output cannot be applied, the error must not wrap webhook.ErrHookFailed. If an error
// wraps ErrHookFailed, the webhook server denies the request, and the failurePolicy of the binding does not apply.
func TestAHookThatIsNotStartedOrWhoseOutputCannotBeAppliedHasNotFailed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines  string
		change func(*testing.T, *fixture)
		want   string
		ran    bool // the hook has succeeded
	}{
		"the files of the run cannot be written": {allow, func(t *testing.T, f *fixture) {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "tmp")
			runner, err := hook.NewRunner(hook.Options{TempDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(runner.Close)
			if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			f.Runner = runner
		}, "files of the run: ", false},
		"the file cannot be executed": {allow, func(t *testing.T, f *fixture) {
			t.Helper()
			if err := os.Chmod(f.path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "the file or its interpreter is not executable", false},
		"the store cannot be written": {setSize + allow, func(_ *testing.T, f *fixture) {
			f.DB.Guard(func() error { return errors.New("the store is read-only") })
		}, "the store is read-only", true},
		"the store is damaged": {setSize + allow, func(_ *testing.T, f *fixture) {
			f.Runner = damaging{f.Runner, f.DB}
		}, "cannot unmarshal", true},
		"the API server does not respond": {
			`echo '{"operation":"Delete","apiVersion":"v1","kind":"ConfigMap","namespace":"n","name":"a"}' >$KUBERNETES_PATCH_PATH` + "\n" + allow,
			func(*testing.T, *fixture) {}, "$KUBERNETES_PATCH_PATH: operation 1 of 1 (", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hooked(t, test.lines)
			test.change(t, f)
			_, err := f.Answer(t.Context(), request(hook.TypeValidating))
			const head = "web/hooks/x.sh check.example.com: "
			if err == nil || errors.Is(err, webhook.ErrHookFailed) || !strings.HasPrefix(err.Error(), head) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s… %s", err, head, test.want)
			}
			run := "web/hooks/x.sh check.example.com kubernetesValidating"
			if notApplied := errors.Is(err, webhook.ErrNotApplied); notApplied != test.ran || len(f.runs.seen) != 1 ||
				notApplied != (f.runs.seen[0] == run) || !notApplied && !strings.Contains(f.runs.seen[0], test.want) {
				t.Errorf("output not applied: %t; reported runs are %q", notApplied, f.runs.seen)
			}
		})
	}
}

// damaging runs hooks. After each run, it damages the stored values patches, so that the output of the hook cannot be
// saved.
type damaging struct {
	review.Runner
	db *store.DB
}

func (d damaging) Run(ctx context.Context, run hook.Run) (hook.Result, error) {
	result, err := d.Runner.Run(ctx, run)
	damage := d.db.Update(func(tx *store.Tx) error { tx.Put(store.SavedKey("web"), []byte("{}")); return nil })
	return result, errors.Join(err, damage)
}

// conflicting runs hooks. After each run, it changes the values, so that the patch of the hook is not valid any more.
type conflicting struct {
	review.Runner
	db *store.DB
}

func (c conflicting) Run(ctx context.Context, run hook.Run) (hook.Result, error) {
	result, err := c.Runner.Run(ctx, run)
	other := []values.Saved{{Op: values.Op{Op: "add", Path: "/web/size", Value: json.RawMessage(`"large"`)}, Hook: "other"}}
	change := c.db.Update(func(tx *store.Tx) error { return store.Save(tx, store.SavedKey("web"), other) })
	return result, errors.Join(err, change)
}

func TestAPatchThatIsNotValidForChangedValuesIsAFailureOfTheHook(t *testing.T) {
	t.Parallel()
	f := hooked(t, `echo '[{"op":"add","path":"/web/size/max","value":2}]' >$VALUES_JSON_PATCH_PATH`+"\n"+allow)
	scantest.Update(t, f.DB, func(tx *store.Tx) error {
		object := values.Saved{Op: values.Op{Op: "add", Path: "/web/size", Value: json.RawMessage(`{}`)}, Hook: "other"}
		return store.Save(tx, store.SavedKey("web"), []values.Saved{object})
	})
	f.Runner = conflicting{f.Runner, f.DB}
	_, err := f.Answer(t.Context(), request(hook.TypeValidating))
	if !errors.Is(err, webhook.ErrHookFailed) || !strings.Contains(err.Error(), "$VALUES_JSON_PATCH_PATH does not fit the values, which have changed during the run: ") {
		t.Errorf("got %v", err)
	}
}

// If the disk is full until the API server stops waiting, the error must name the disk, and not the hook.
func TestAReviewOnAFullDiskIsRepeatedUntilItsTimeout(t *testing.T) {
	t.Parallel()
	f := hooked(t, setSize+allow)
	full := true
	f.DB.Guard(func() error {
		if full {
			full = false
			return store.ErrFull
		}
		return nil
	})
	if _, err := f.Answer(t.Context(), request(hook.TypeValidating)); err != nil || full {
		t.Errorf("after a shortage: full %t, %v", full, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.DB.Guard(func() error { cancel(); return store.ErrFull })
	_, err := f.Answer(ctx, request(hook.TypeValidating))
	if !errors.Is(err, webhook.ErrNotApplied) || errors.Is(err, webhook.ErrHookFailed) || !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v", err)
	}
	run := "web/hooks/x.sh check.example.com kubernetesValidating"
	if diff := cmp.Diff([]string{run, run}, f.runs.seen); diff != "" {
		t.Errorf("reported runs (-want +got):\n%s", diff)
	}
}

// late runs hooks. At the end of a run, the API server stops waiting for the response.
type late struct {
	review.Runner
	stop context.CancelFunc
}

func (l late) Run(ctx context.Context, run hook.Run) (hook.Result, error) {
	result, err := l.Runner.Run(ctx, run)
	l.stop()
	return result, err
}

// If a hook needs so much time that none is left for its operations, the review has the result "timeout", and not
// "error": nothing outside the hook has failed.
func TestOperationsThatTheTimeoutInterruptsAreNoErrorOfTheOperator(t *testing.T) {
	t.Parallel()
	f := hooked(t, `echo '{"operation":"Delete","apiVersion":"v1","kind":"ConfigMap","namespace":"n","name":"a"}' >$KUBERNETES_PATCH_PATH`+"\n"+allow)
	ctx, cancel := context.WithCancel(t.Context())
	f.Runner = late{f.Runner, cancel}
	_, err := f.Answer(ctx, request(hook.TypeValidating))
	if !errors.Is(err, context.Canceled) || errors.Is(err, webhook.ErrNotApplied) || errors.Is(err, webhook.ErrHookFailed) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"web/hooks/x.sh check.example.com kubernetesValidating"}, f.runs.seen); diff != "" {
		t.Errorf("reported runs (-want +got):\n%s", diff)
	}
}

// noSnapshots implements bindings.Snapshots for hooks whose kubernetes bindings are not attached.
type noSnapshots struct{}

func (noSnapshots) Ready(context.Context, string, string) error { return nil }
func (noSnapshots) Snapshot(graph.Subject) []*kube.Object       { return nil }
func (noSnapshots) IsComplete(graph.Subject) bool               { return false }

// A review can arrive before the kubernetes bindings of its hook are attached: new code can have one more of them, and a
// conversion binding can be attached before them. Without the snapshots of these bindings, the answer could be wrong.
func TestAReviewFailsUntilTheBindingsOfItsSnapshotsAreAttached(t *testing.T) {
	t.Parallel()
	for of, binding := range map[hook.Type]string{
		hook.TypeValidating: "check.example.com", hook.TypeMutating: "change.example.com", hook.TypeConversion: "up",
	} {
		t.Run(string(of), func(t *testing.T) {
			t.Parallel()
			f := hooked(t, `echo '{"failedMessage":"called"}' >$CONVERSION_RESPONSE_PATH`+"\n"+allow)
			f.hooks.Connect(noSnapshots{})
			defaults := store.BindingKey("web", "hooks/x.sh", "defaults")
			scantest.Update(t, f.DB, func(tx *store.Tx) error {
				h, _, err := store.Load[store.Hook](tx, store.HookKey("web", "hooks/x.sh"))
				with := strings.Replace(config, `{"name":"`+binding+`",`, `{"name":"`+binding+`","includeSnapshotsFrom":["defaults"],`, 1)
				c, bad := hook.Load(hook.Module, []byte(strings.Replace(with, "{", `{"kubernetes":[{"name":"defaults","kind":"ConfigMap"}],`, 1)))
				if bad != nil {
					return bad
				}
				h.Config, bad = json.Marshal(c)
				return errors.Join(err, bad, store.Save(tx, store.HookKey("web", "hooks/x.sh"), h))
			})
			for _, b := range []*store.Binding{nil, {Kind: store.Kubernetes, Detached: true}} {
				if b != nil {
					scantest.Update(t, f.DB, func(tx *store.Tx) error { return store.Save(tx, defaults, *b) })
				}
				got, err := f.Answer(t.Context(), request(of))
				want := "web/hooks/x.sh " + binding + ": the snapshots of defaults are not known, because the binding is not attached yet"
				if err == nil || err.Error() != want || errors.Is(err, webhook.ErrHookFailed) || errors.Is(err, webhook.ErrWithdrawn) || len(f.runs.seen) != 0 {
					t.Errorf("binding %+v: got %+v and the error %v after the runs %q", b, got, err, f.runs.seen)
				}
			}
			scantest.Update(t, f.DB, func(tx *store.Tx) error { return store.Save(tx, defaults, store.Binding{Kind: store.Kubernetes}) })
			if got, err := f.Answer(t.Context(), request(of)); err != nil || got.Verdict.Allowed == (got.Converted.Failed == "called") {
				t.Errorf("once the binding is attached: got %+v, %v", got, err)
			}
		})
	}
}

// If a hook succeeds but writes no response, the error must say so, and must not wrap webhook.ErrHookFailed.
func TestAHookWithoutAResponseHasNotFailed(t *testing.T) {
	t.Parallel()
	for binding, want := range map[hook.Type]string{
		hook.TypeValidating: "web/hooks/x.sh check.example.com: the hook wrote no response to $ADMISSION_RESPONSE_PATH",
		hook.TypeConversion: "web/hooks/x.sh up: the hook wrote no response to $CONVERSION_RESPONSE_PATH",
	} {
		f := hooked(t, setSize)
		_, err := f.Answer(t.Context(), request(binding))
		if !errors.Is(err, hook.ErrNoResponse) || errors.Is(err, webhook.ErrHookFailed) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if got := f.saved(t); got != nil {
			t.Errorf("it saved %q", got)
		}
	}
}

// The hook of an attached conversion binding can be missing for a time: when the hook of a module is renamed, the
// binding of the renamed hook is attached later. Until then, objects must not be treated as if no hook converted them.
func TestAConversionIsNotWithdrawnAsLongAsItsBindingIsAttached(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, f *fixture){
		"renamed file": func(t *testing.T, f *fixture) {
			t.Helper()
			if err := os.Rename(f.path, filepath.Join(filepath.Dir(f.path), "y.sh")); err != nil {
				t.Fatal(err)
			}
		},
		"renamed hook, without its record": func(t *testing.T, f *fixture) {
			t.Helper()
			scantest.Update(t, f.DB, func(tx *store.Tx) error { tx.Delete(store.HookKey("web", "hooks/x.sh")); return nil })
		},
		"renamed binding": func(t *testing.T, f *fixture) {
			t.Helper()
			scantest.Update(t, f.DB, func(tx *store.Tx) error {
				h, _, err := store.Load[store.Hook](tx, store.HookKey("web", "hooks/x.sh"))
				h.Config = json.RawMessage(strings.Replace(string(h.Config), `"up"`, `"upgrade"`, 1))
				return errors.Join(err, store.Save(tx, store.HookKey("web", "hooks/x.sh"), h))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hooked(t, `echo '{"failedMessage":"called"}' >$CONVERSION_RESPONSE_PATH`)
			change(t, f)
			got, err := f.Answer(t.Context(), request(hook.TypeConversion))
			if err == nil || errors.Is(err, webhook.ErrWithdrawn) || !errors.Is(err, hook.ErrGone) || len(f.runs.seen) != 0 {
				t.Errorf("got %+v and the error %v after the runs %q", got, err, f.runs.seen)
			}
			scantest.Update(t, f.DB, func(tx *store.Tx) error { return bindings.Detach(tx, "web") })
			if _, err := f.Answer(t.Context(), request(hook.TypeConversion)); !errors.Is(err, webhook.ErrWithdrawn) {
				t.Errorf("once it is detached: %v", err)
			}
		})
	}
}

func TestAReviewForABindingThatIsNotAttachedRunsNoHook(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, f *fixture, q *webhook.ReviewRequest){
		"unknown binding": func(_ *testing.T, _ *fixture, q *webhook.ReviewRequest) { q.Binding = "other.example.com" },
		"unknown hook":    func(_ *testing.T, _ *fixture, q *webhook.ReviewRequest) { q.Hook = "hooks/y.sh" },
		"unknown module":  func(_ *testing.T, _ *fixture, q *webhook.ReviewRequest) { q.Module = "other" },
		"detached": func(t *testing.T, f *fixture, _ *webhook.ReviewRequest) {
			t.Helper()
			scantest.Update(t, f.DB, func(tx *store.Tx) error { return bindings.Detach(tx, "web") })
		},
		"forgotten hook": func(t *testing.T, f *fixture, _ *webhook.ReviewRequest) {
			t.Helper()
			scantest.Update(t, f.DB, func(tx *store.Tx) error { tx.Delete(store.HookKey("web", "hooks/x.sh")); return nil })
		},
		"deleted file": func(t *testing.T, f *fixture, _ *webhook.ReviewRequest) {
			t.Helper()
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
		},
		"binding of another type": func(_ *testing.T, _ *fixture, q *webhook.ReviewRequest) { q.Type = hook.TypeMutating },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hooked(t, allow)
			q := request(hook.TypeValidating)
			change(t, f, &q)
			if _, err := f.Answer(t.Context(), q); !errors.Is(err, webhook.ErrWithdrawn) {
				t.Errorf("got %v", err)
			}
			if len(f.runs.seen) != 0 {
				t.Errorf("runs: %q", f.runs.seen)
			}
		})
	}
}
