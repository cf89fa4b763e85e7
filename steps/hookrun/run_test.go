package hookrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/report"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// snapshots implements bindings.Snapshots. The snapshot of each binding has one object. If missing is not nil, it is
// the error of incomplete snapshots. If padding is not 0, the object has an additional field of this length. If
// incomplete is true, there are no objects, and the next call of Ready without an error completes the snapshots.
type snapshots struct {
	missing    error
	padding    int
	incomplete atomic.Bool
}

func (s *snapshots) Ready(context.Context, string, string) error {
	if s.missing == nil {
		s.incomplete.Store(false)
	}
	return s.missing
}

func (s *snapshots) IsComplete(graph.Subject) bool { return s.missing == nil && !s.incomplete.Load() }

func (s *snapshots) Snapshot(of graph.Subject) []*kube.Object {
	if s.incomplete.Load() {
		return nil
	}
	raw := `{"of":"` + of.Binding + `"}`
	if s.padding > 0 {
		raw = `{"of":"` + of.Binding + `","padding":"` + strings.Repeat("x", s.padding) + `"}`
	}
	return []*kube.Object{{Name: of.Binding, UID: "1", ResourceVersion: "2", Raw: json.RawMessage(raw)}}
}

// A runBench runs a hook that copies its input files to a directory.
type runBench struct {
	hookrun.Silent

	t         *testing.T
	s         *scan.State
	hooks     *hookrun.Hooks
	module    string
	path      string // path of the hook
	copies    string // the directory with the copies
	snapshots snapshots
	ahead     []string // modules whose charts were rendered ahead
	runs      []report.Run
}

func (b *runBench) HookRan(r report.Run) { b.runs = append(b.runs, r) }

func (b *runBench) RenderAhead(_ context.Context, module string) { b.ahead = append(b.ahead, module) }

// newRunBench returns a bench with a hook whose bindings are attached. If the hook is called with --config, it prints
// the argument config; otherwise it copies its input files and runs the lines of shell in the argument commands. The
// argument module is "web", or empty for a global hook.
func newRunBench(t *testing.T, module, config, commands string) *runBench {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	b := &runBench{t: t, s: scan.New(o, nil), module: module, copies: t.TempDir()}
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	dir, scope := filepath.Join(mounted, "010-web"), hook.Module
	if module == "" {
		dir, scope = o.GlobalHooksDir, hook.Global
	}
	b.path = scantest.Program(t, dir, "hooks/hook.sh", "#!/bin/sh\n"+
		"if [ \"$1\" = --config ]; then echo '"+config+"'; exit; fi\n"+
		"cp $BINDING_CONTEXT_PATH "+b.copies+"/context; cp $VALUES_PATH "+b.copies+"/values; cp $CONFIG_VALUES_PATH "+b.copies+"/config\n"+commands+"\n")
	scantest.Scan(t, b.s)
	b.hooks = hookrun.New(hookrun.Options{Runner: scantest.Runner(t)}, b.s, b, b)
	b.hooks.Connect(&b.snapshots)
	digest, err := b.s.Modules.CodeOf(module)
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.hooks.Configs.Ask(t.Context(), module, scope, dir, digest)
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, b.s.DB, func(tx *store.Tx) error {
		if err := store.Save(tx, store.StartupKey(), store.Startup{StartRun: 4, Enabled: []string{"web", "db"}}); err != nil {
			return err
		}
		if _, err := found.Save(tx, module); err != nil {
			return err
		}
		all, err := bindings.LoadHooks(tx, module)
		if err != nil {
			return err
		}
		_, err = bindings.Attach(tx, module, all)
		return err
	})
	return b
}

// task returns a task of the hook for the bindings with these IDs. For an ordered binding, ids is empty.
func (b *runBench) task(ids ...string) workflow.Task {
	subject := graph.Subject{Module: b.module, Hook: "hooks/hook.sh"}
	if len(ids) == 0 {
		ids = []string{""}
	}
	t := workflow.Task{Try: 1}
	for i, id := range ids {
		subject.Binding = id
		one := &store.Task{ID: store.ID{Epoch: 1, N: uint64(i)}, Subject: subject} //nolint:gosec // a few
		if b.module != "" && id != "" && !strings.HasPrefix(id, "s") {
			one.Object = &store.ObjectRef{Event: hook.Modified, Name: fmt.Sprint(i)}
			one.Payload = json.RawMessage(`{"object":{"n":` + fmt.Sprint(i) + `}}`)
		}
		t.Batch = append(t.Batch, one)
	}
	t.Task = *t.Batch[0]
	return t
}

// received returns the content of the input file called name in the last run of the hook. It returns "" if the hook
// had no such file.
func (b *runBench) received(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.copies, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

const moduleHook = `{"configVersion":"v1","onStartup":1,"beforeHelm":1,"kubernetes":[{"name":"pods","kind":"Pod","includeSnapshotsFrom":["nodes"]},` +
	`{"name":"nodes","kind":"Node"},{"name":"quiet","kind":"Pod","executeHookOnSynchronization":false}],"schedule":[{"name":"s","crontab":"0 3 * * *"}]}`

func TestBindingContextOfAHookForEachNode(t *testing.T) {
	const plain, old = `{"configVersion":"v1","beforeHelm":1}`, `{"beforeHelm":1}`
	of := func(name string) string { return `[{"object":{"of":"` + name + `"}}]` }
	all := `"snapshots":{"nodes":` + of("nodes") + `,"pods":` + of("pods") + `,"quiet":` + of("quiet") + `}`
	for name, c := range map[string]struct {
		config   string
		node     graph.NodeID
		bindings []string
		want     string
	}{
		"onStartup":                            {moduleHook, lifecycle.ModuleOnStartup, nil, `[{"binding":"onStartup"}]`},
		"beforeHelm":                           {moduleHook, lifecycle.ModuleBeforeHelm, nil, `[{"binding":"beforeHelm",` + all + `}]`},
		"beforeHelm without a cluster binding": {plain, lifecycle.ModuleBeforeHelm, nil, `[{"binding":"beforeHelm","snapshots":{}}]`},
		"beforeHelm of the legacy format":      {old, lifecycle.ModuleBeforeHelm, nil, `[{"binding":"beforeHelm"}]`},
		"Synchronization": {
			moduleHook, lifecycle.ModuleSynchronization, []string{"pods"}, `[{"binding":"pods","type":"Synchronization","objects":` + of("pods") + `,"snapshots":{"nodes":` + of("nodes") + `}}]`,
		},
		"Synchronization of a binding that does not want it": {moduleHook, lifecycle.ModuleSynchronization, []string{"quiet"}, ""},
		"events": {
			moduleHook, lifecycle.ModuleKubernetesEvent,
			[]string{"quiet", "nodes"},
			`[{"binding":"quiet","type":"Event","watchEvent":"Modified","object":{"n":0}},{"binding":"nodes","type":"Event","watchEvent":"Modified","object":{"n":1}}]`,
		},
		"events, and one of a binding that is gone": {
			moduleHook, lifecycle.ModuleKubernetesEvent, []string{"gone", "nodes"}, `[{"binding":"nodes","type":"Event","watchEvent":"Modified","object":{"n":1}}]`,
		},
		"a schedule": {moduleHook, lifecycle.ModuleScheduleEvent, []string{"s"}, `[{"binding":"s","type":"Schedule"}]`},
	} {
		b := newRunBench(t, "web", c.config, "")
		o, err := b.hooks.Step(c.node).Do(t.Context(), b.task(c.bindings...))
		if err != nil || o.Dropped != "" {
			t.Errorf("%s: dropped %q, %v", name, o.Dropped, err)
			continue
		}
		var got, want any
		if c.want != "" {
			if err := errors.Join(json.Unmarshal([]byte(b.received("context")), &got), json.Unmarshal([]byte(c.want), &want)); err != nil {
				t.Fatalf("%s: %v, in %s", name, err, b.received("context"))
			}
		} else if text := b.received("context"); text != "" || o.Detail == "" {
			t.Errorf("%s: the hook ran with %s; the history says %q", name, text, o.Detail)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: binding context (-want +got):\n%s", name, diff)
		}
	}
}

func TestValuesThatAHookReceives(t *testing.T) {
	for _, c := range []struct {
		module, config, values, ofConfig string
		nodes                            []graph.NodeID
	}{
		{
			"", `{"configVersion":"v1","onStartup":1,"beforeAll":1,"afterAll":1}`, `{"global":{"kept":1}}`, `{"global":{"kept":1}}`,
			[]graph.NodeID{lifecycle.GlobalOnStartup, lifecycle.GlobalBeforeAll, lifecycle.GlobalAfterAll},
		},
		{
			"web", `{"configVersion":"v1","beforeHelm":1,"afterDeleteHelm":1}`,
			`{"global":{"enabledModules":["web","db"],"kept":1},"web":{"patched":2,"size":1}}`, `{"global":{"kept":1},"web":null}`,
			[]graph.NodeID{lifecycle.ModuleBeforeHelm, lifecycle.ModuleAfterDelete},
		},
	} {
		b := newRunBench(t, c.module, c.config, "")
		scantest.Update(t, b.s.DB, func(tx *store.Tx) error {
			op := values.Op{Op: "add", Path: "/web/patched", Value: json.RawMessage("2")}
			return errors.Join(
				b.s.ConfigMap.SaveApplied(tx, scantest.Config(t, "global", "{kept: 1}"), "1"), store.Save(tx, store.SavedKey("web"), []values.Saved{{Op: op, Hook: "web/h"}}),
			)
		})
		for _, node := range c.nodes {
			if _, err := b.hooks.Step(node).Do(t.Context(), b.task()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.values, c.ofConfig}, []string{b.received("values"), b.received("config")}); diff != "" {
				t.Errorf("%s: values, and those of the ConfigMap (-want +got):\n%s", node, diff)
			}
		}
	}
}

func TestAHookThatIsGoneIsNotRunAndTheTaskIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *runBench)
		want   string
	}{
		"the record": {func(b *runBench) {
			scantest.Update(t, b.s.DB, func(tx *store.Tx) error { tx.Delete(store.HookKey("web", "hooks/hook.sh")); return nil })
		}, "not run: hook web/hooks/hook.sh pods is not there any more"},
		"the file": {func(b *runBench) {
			if err := os.Remove(b.path); err != nil {
				t.Fatal(err)
			}
		}, "not run: file PATH is not there any more"},
		"the binding": {func(b *runBench) {
			scantest.Update(t, b.s.DB, func(tx *store.Tx) error {
				h, _, err := store.Load[store.Hook](tx, store.HookKey("web", "hooks/hook.sh"))
				h.Config = json.RawMessage(`{"configVersion":"v1"}`)
				return errors.Join(err, store.Save(tx, store.HookKey("web", "hooks/hook.sh"), h))
			})
		}, `not run: binding "pods" of hook web/hooks/hook.sh is not there any more`},
	} {
		b := newRunBench(t, "web", moduleHook, "")
		c.change(b)
		for _, node := range []graph.NodeID{lifecycle.ModuleSynchronization, lifecycle.ModuleKubernetesEvent} {
			o, err := b.hooks.Step(node).Do(t.Context(), b.task("pods"))
			if got := strings.ReplaceAll(o.Dropped, b.path, "PATH"); err != nil || got != c.want || len(b.runs) > 0 {
				t.Errorf("%s is gone, %s: dropped %q, %v, runs %+v; want %q", name, node, got, err, b.runs, c.want)
			}
		}
	}
}

func TestAHookIsNotRunWithoutItsInput(t *testing.T) {
	incomplete := errors.New("the list of Pods is forbidden")
	b := newRunBench(t, "web", moduleHook, "")
	b.snapshots.missing = incomplete
	for node, waits := range map[graph.NodeID]bool{
		lifecycle.ModuleBeforeHelm: true, lifecycle.ModuleSynchronization: true, lifecycle.ModuleKubernetesEvent: true,
		lifecycle.ModuleOnStartup: false, lifecycle.ModuleScheduleEvent: false,
	} {
		task := b.task("pods") // the schedule binding s includes the snapshot of the binding pods
		if node == lifecycle.ModuleScheduleEvent {
			task = b.task("s")
		}
		b.runs = nil
		_, err := b.hooks.Step(node).Do(t.Context(), task)
		if errors.Is(err, incomplete) != waits || (len(b.runs) == 0) != waits {
			t.Errorf("%s without complete snapshots: %v, runs %+v; the hook needs them: %t", node, err, b.runs, waits)
		}
	}
	b.snapshots.missing = nil
	scantest.Write(t, filepath.Dir(filepath.Dir(b.path)), "values.yaml", "web: [")
	scantest.Scan(t, b.s)
	b.runs = nil
	if _, err := b.hooks.Step(lifecycle.ModuleScheduleEvent).Do(t.Context(), b.task("s")); err == nil || !strings.Contains(err.Error(), "010-web/values.yaml") || len(b.runs) > 0 {
		t.Errorf("in a module that cannot be loaded: %v, runs %+v", err, b.runs)
	}
}

// The binding nodes has got another filter, or another kind, since the event was added.
func TestAnEventOfAnEarlierConfigurationIsReadFromTheSnapshot(t *testing.T) {
	b := newRunBench(t, "web", moduleHook, "")
	task := b.task("nodes")
	task.Batch[0].Object = &store.ObjectRef{Event: hook.Modified, Kind: "Node", Name: "nodes", UID: "1"}
	changes := func(change func(b *store.Binding, at store.ID)) {
		key := store.BindingKey("web", "hooks/hook.sh", "nodes")
		scantest.Update(t, b.s.DB, func(tx *store.Tx) error {
			record, _, err := store.Load[store.Binding](tx, key)
			change(&record, store.ID{Epoch: 1, N: 100})
			return errors.Join(err, store.Save(tx, key, record))
		})
	}
	changes(func(b *store.Binding, at store.ID) { b.FormChanged, b.FilterChanged = at, at })
	// A batch can begin with a schedule tick. So the node of the attempt does not say whether the batch has events.
	for _, node := range []graph.NodeID{lifecycle.ModuleKubernetesEvent, lifecycle.ModuleScheduleEvent} {
		if _, err := b.hooks.Step(node).Do(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		const want = `[{"binding":"nodes","type":"Event","watchEvent":"Modified","object":{"of":"nodes"}}]`
		if diff := cmp.Diff(want, b.received("context")); diff != "" {
			t.Errorf("%s: binding context (-want +got):\n%s", node, diff)
		}
	}
	b.snapshots.missing = errors.New("the list of Nodes is forbidden")
	if _, err := b.hooks.Step(lifecycle.ModuleKubernetesEvent).Do(t.Context(), task); !errors.Is(err, b.snapshots.missing) {
		t.Errorf("without complete snapshots: %v", err)
	}
	b.snapshots.missing = nil
	changes(func(b *store.Binding, at store.ID) { b.KindChanged = at })
	o, err := b.hooks.Step(lifecycle.ModuleKubernetesEvent).Do(t.Context(), task)
	const want = `not run: the earlier configuration of binding "nodes" of hook web/hooks/hook.sh, for which the event of Node nodes was added, is not there any more`
	if o.Dropped != want || err != nil {
		t.Errorf("dropped %q, %v; want %q", o.Dropped, err, want)
	}
}

func TestAFailedRunOfAHookIsReportedAndHasNoOutcome(t *testing.T) {
	for name, c := range map[string]struct{ commands, want string }{
		"exit status":   {"echo no such bucket >&2; exit 3", "no such bucket"},
		"invalid patch": {"echo '{\"op\":\"add\"}' >$VALUES_JSON_PATCH_PATH", "$VALUES_JSON_PATCH_PATH"},
	} {
		b := newRunBench(t, "web", moduleHook, c.commands)
		o, err := b.hooks.Step(lifecycle.ModuleScheduleEvent).Do(t.Context(), b.task("s"))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(o.Data)+len(o.Effects) > 0 {
			t.Errorf("%s: error %v, outcome %+v; want an error with %s", name, err, o, c.want)
		}
		if len(b.runs) != 1 || !errors.Is(b.runs[0].Err, err) || b.runs[0].Binding != "schedule" {
			t.Errorf("%s: reported runs %+v", name, b.runs)
		}
	}
}

func TestTheChartIsRenderedDuringTheLastHookBeforeHelmOnly(t *testing.T) {
	b := newRunBench(t, "web", moduleHook, "")
	for _, c := range []struct {
		node      graph.NodeID
		next, len int
		want      []string
	}{
		{lifecycle.ModuleBeforeHelm, 0, 2, nil},
		{lifecycle.ModuleBeforeHelm, 1, 2, []string{"web"}},
		{lifecycle.ModuleBeforeHelm, 0, 1, []string{"web"}},
		{lifecycle.ModuleOnStartup, 0, 1, nil},
	} {
		b.ahead = nil
		task := b.task()
		task.FanOut = &store.FanOut{Next: c.next, Len: c.len}
		if _, err := b.hooks.Step(c.node).Do(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.ahead); diff != "" {
			t.Errorf("%s, item %d of %d: charts (-want +got):\n%s", c.node, c.next, c.len, diff)
		}
	}
}

func TestHooksOfANodeAreOrderedByTheirNumbersAndThenByName(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	hooks := newHooks(s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		for name, config := range map[string]string{
			"c.sh": `{"configVersion":"v1","beforeHelm":5}`, "a.sh": `{"configVersion":"v1","beforeHelm":20,"afterHelm":1}`,
			"b.sh": `{"configVersion":"v1","beforeHelm":5,"afterHelm":2}`, "d.sh": `{"configVersion":"v1","beforeHelm":0}`, "e.sh": `{"configVersion":"v1","onStartup":1}`,
		} {
			if err := saveHook(tx, "web", name, config); err != nil {
				return err
			}
		}
		return saveHook(tx, "db", "z.sh", `{"configVersion":"v1","beforeHelm":1}`)
	})
	for node, want := range map[graph.NodeID][]string{
		lifecycle.ModuleBeforeHelm:   {"d.sh", "b.sh", "c.sh", "a.sh"},
		lifecycle.ModuleAfterHelm:    {"a.sh", "b.sh"},
		lifecycle.ModuleAfterDelete:  nil,
		lifecycle.ModuleBeforeDelete: nil,
	} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			items, _, err := hooks.Step(node).Items(tx, workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}})
			var got []string
			for _, item := range items {
				got = append(got, item.Subject.Hook)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", node, diff)
			}
			return err
		})
	}
}

// saveHook saves the record of a hook with this configuration.
func saveHook(tx *store.Tx, module, name, config string) error {
	scope := hook.Module
	if module == "" {
		scope = hook.Global
	}
	parsed, err := hook.Load(scope, []byte(config))
	if err != nil {
		return err
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		return err
	}
	return store.Save(tx, store.HookKey(module, name), store.Hook{Digest: "d", File: json.RawMessage(`{"name":"` + name + `"}`), Config: text})
}

func TestRateLimitOfAHookCountsOnlyItsRuns(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	hooks := newHooks(s)
	const settings = `{"configVersion":"v1","settings":{"executionMinInterval":"3s","executionBurst":2},` +
		`"kubernetes":[{"name":"pods","kind":"Pod"},{"name":"quiet","kind":"Pod","executeHookOnSynchronization":false}]}`
	limited := workflow.RateLimit{Every: 3 * time.Second, Burst: 2}
	for name, c := range map[string]struct {
		config  string
		node    graph.NodeID
		binding string
		want    workflow.RateLimit
	}{
		"no hook":                       {"", lifecycle.ModuleKubernetesEvent, "pods", workflow.RateLimit{}},
		"no settings":                   {`{"configVersion":"v1","beforeHelm":1}`, lifecycle.ModuleKubernetesEvent, "pods", workflow.RateLimit{}},
		"an event":                      {settings, lifecycle.ModuleKubernetesEvent, "pods", limited},
		"an event of a quiet binding":   {settings, lifecycle.ModuleKubernetesEvent, "quiet", limited},
		"a Synchronization":             {settings, lifecycle.ModuleSynchronization, "pods", limited},
		"one that does not run":         {settings, lifecycle.ModuleSynchronization, "quiet", workflow.RateLimit{}},
		"a hook of the legacy format":   {`{"beforeHelm":1}`, lifecycle.ModuleKubernetesEvent, "", workflow.RateLimit{NoBatch: true}},
		"a record that cannot be read":  {"{", lifecycle.ModuleKubernetesEvent, "pods", workflow.RateLimit{}},
		"a config that cannot be read":  {`[]`, lifecycle.ModuleKubernetesEvent, "pods", workflow.RateLimit{}},
		"an interval of zero and burst": {`{"configVersion":"v1","settings":{"executionMinInterval":"0s","executionBurst":2},"beforeHelm":1}`, lifecycle.ModuleKubernetesEvent, "", workflow.RateLimit{}},
	} {
		key := store.HookKey("web", "h.sh")
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			defer tx.Delete(key)
			switch c.config {
			case "":
			case "{":
				tx.Put(key, []byte("{"))
			case "[]":
				if err := store.Save(tx, key, store.Hook{Config: json.RawMessage("[]")}); err != nil {
					return err
				}
			default:
				if err := saveHook(tx, "web", "h.sh", c.config); err != nil {
					return err
				}
			}
			limiter, is := hooks.Step(c.node).(interface {
				RateLimit(tx *store.Tx, t *store.Task) workflow.RateLimit
			})
			if !is {
				t.Fatal("the step has no rate limit")
			}
			got := limiter.RateLimit(tx, &store.Task{Subject: graph.Subject{Module: "web", Hook: "h.sh", Binding: c.binding}})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return nil
		})
	}
}

func TestWhatAHookAwaitsInAStart(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	hooks := newHooks(s)
	kubernetes := func(started, synced uint64) store.Binding {
		return store.Binding{Kind: store.Kubernetes, AttachedInStart: started, SyncedIn: synced, Config: json.RawMessage(`{}`)}
	}
	schedule := store.Binding{Kind: store.Schedule, AttachedInStart: 4, Config: json.RawMessage(`{}`)}
	detached := kubernetes(3, 3)
	detached.Detached = true
	for name, c := range map[string]struct {
		module   string
		bindings map[string]store.Binding
		want     string
	}{
		"nothing is attached":              {"web", nil, ""},
		"attached and synchronized":        {"web", map[string]store.Binding{"a": kubernetes(4, 4), "s": schedule}, ""},
		"the module has yet to start":      {"web", map[string]store.Binding{"a": kubernetes(3, 3)}, "module web has yet to run its onStartup hooks in this start"},
		"the operator has yet to start":    {"", map[string]store.Binding{"a": kubernetes(3, 3)}, "the onStartup hooks have yet to run in this start"},
		"two bindings to synchronize":      {"web", map[string]store.Binding{"a": kubernetes(4, 4), "b": kubernetes(4, 0), "c": kubernetes(4, 3)}, "web/hooks/h.sh b has yet to run Synchronization in this start"},
		"a schedule of an unstarted hook":  {"web", map[string]store.Binding{"a": kubernetes(4, 0), "s": {Kind: store.Schedule, AttachedInStart: 3}}, "module web has yet to run its onStartup hooks in this start"},
		"the module is being deleted":      {"web", map[string]store.Binding{"a": detached}, ""},
		"attached by an earlier version":   {"web", map[string]store.Binding{"a": kubernetes(0, 4)}, ""},
		"a schedule waits for the objects": {"web", map[string]store.Binding{"a": kubernetes(4, 3), "s": schedule}, "web/hooks/h.sh a has yet to run Synchronization in this start"},
	} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			if err := store.Save(tx, store.StartupKey(), store.Startup{StartRun: 4}); err != nil {
				return err
			}
			for id, b := range c.bindings {
				key := store.BindingKey(c.module, "hooks/h.sh", id)
				if err := store.Save(tx, key, b); err != nil {
					return err
				}
				defer tx.Delete(key)
			}
			other := store.BindingKey(c.module, "hooks/other.sh", "a") // a binding of another hook, which must have no effect
			defer tx.Delete(other)
			if err := store.Save(tx, other, kubernetes(4, 0)); err != nil {
				return err
			}
			sync := c.want
			if strings.HasSuffix(sync, "Synchronization in this start") {
				sync = "" // only events and schedule ticks wait for the Synchronization
			}
			for node, want := range map[graph.NodeID]string{
				lifecycle.ModuleScheduleEvent: c.want, lifecycle.ModuleSynchronization: sync, lifecycle.GlobalOnStartup: "",
			} {
				step, is := hooks.Step(node).(workflow.Gater)
				if !is {
					t.Fatal("the step has no gate")
				}
				got, err := step.Gate(tx, &store.Task{Subject: graph.Subject{Module: c.module, Hook: "hooks/h.sh", Binding: "s"}})
				if got != want || err != nil {
					t.Errorf("%s: at %s, the hook awaits %q (%v), want %q", name, node, got, err, want)
				}
			}
			return nil
		})
	}
}

func TestASkippedSynchronizationMarksItsBindingAsSynchronized(t *testing.T) {
	b := newRunBench(t, "web", moduleHook, "")
	synced := func() (ids []string) {
		t.Helper()
		scantest.Update(t, b.s.DB, func(tx *store.Tx) error {
			for k := range tx.Range(store.BindingsOf("web")) {
				record, _, err := store.Load[store.Binding](tx, k)
				if err != nil {
					return err
				}
				subject, err := store.ParseBindingKey(k)
				if err != nil {
					return err
				}
				if record.SyncedIn == 4 {
					ids = append(ids, subject.Binding)
				}
			}
			return nil
		})
		return ids
	}
	for _, c := range []struct {
		node graph.NodeID
		want []string
	}{{lifecycle.ModuleKubernetesEvent, nil}, {lifecycle.ModuleSynchronization, []string{"quiet"}}} {
		step, is := b.hooks.Step(c.node).(workflow.Skipper)
		if !is {
			t.Fatal("the step cannot be skipped")
		}
		scantest.Update(t, b.s.DB, func(tx *store.Tx) error { return step.Skipped(tx, b.task("quiet")) })
		if got := synced(); !slices.Equal(got, c.want) {
			t.Errorf("%s: synchronized are %q, want %q", c.node, got, c.want)
		}
	}
}

func TestWhetherAnItemRunsItsHook(t *testing.T) {
	b := newRunBench(t, "web", moduleHook, "")
	for _, c := range []struct {
		node    graph.NodeID
		hook    string
		binding string
		want    bool
	}{
		{lifecycle.ModuleSynchronization, "hooks/hook.sh", "pods", true},
		{lifecycle.ModuleSynchronization, "hooks/hook.sh", "quiet", false},
		{lifecycle.ModuleKubernetesEvent, "hooks/hook.sh", "quiet", true},
		{lifecycle.ModuleBeforeHelm, "hooks/hook.sh", "", true},
		{lifecycle.ModuleBeforeHelm, "hooks/gone.sh", "", false},
	} {
		node, _ := lifecycle.Graph.Node(c.node)
		if err := b.s.DB.View(func(tx *store.Tx) error {
			got, err := hookrun.Runs(tx, node, graph.Subject{Module: "web", Hook: c.hook, Binding: c.binding})
			if got != c.want {
				t.Errorf("%s of %s %s: %t", c.node, c.hook, c.binding, got)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
