package hookrun_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// newHooks returns the hooks of the modules of s.
func newHooks(s *scan.State) *hookrun.Hooks {
	return hookrun.New(hookrun.Options{}, s, nil, hookrun.Silent{})
}

type codeBench struct {
	t      *testing.T
	s      *scan.State
	hooks  *hookrun.Hooks
	module string
}

func newCodeBench(t *testing.T, module string) codeBench {
	t.Helper()
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	scantest.Scan(t, s)
	return codeBench{t, s, newHooks(s), module}
}

func (b codeBench) puts(digest, config string) {
	b.t.Helper()
	scope := hook.Module
	if b.module == "" {
		scope = hook.Global
	}
	parsed, err := hook.Load(scope, []byte(config))
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		b.t.Fatal(err)
	}
	file := json.RawMessage(`{"name":"hook.sh"}`)
	code, _, _ := strings.Cut(digest, " with ")
	b.saves(hooks.Found{Digest: digest, Hooks: map[string]store.Hook{"hook.sh": {Digest: digest, Code: code, File: file, Config: text}}})
}

// removes deletes the record of the hook, like a start that does not find the hook.
func (b codeBench) removes() {
	b.t.Helper()
	b.saves(hooks.Found{})
}

func (b codeBench) saves(found hooks.Found) {
	b.t.Helper()
	scantest.Update(b.t, b.s.DB, func(tx *store.Tx) error {
		_, err := found.Save(tx, b.module)
		return err
	})
}

// attaches attaches the bindings of the hook. It returns the bindings whose Synchronization must run. The word
// "changed" follows a binding if its Synchronization must run again even if it is already running.
func (b codeBench) attaches() (names []string) {
	b.t.Helper()
	scantest.Update(b.t, b.s.DB, func(tx *store.Tx) error {
		hooks, err := bindings.LoadHooks(tx, b.module)
		if err != nil {
			return err
		}
		items, err := bindings.Attach(tx, b.module, hooks)
		for _, item := range items {
			name := item.Subject.Binding
			if item.Changed {
				name += " changed"
			}
			names = append(names, name)
		}
		return err
	})
	return names
}

// awaits returns the reason why the hook cannot run for the task t yet.
func (b codeBench) awaits(t *store.Task) (reason string) {
	b.t.Helper()
	if err := b.s.DB.View(func(tx *store.Tx) (err error) {
		gater, _ := b.hooks.Step(graph.NodeID(t.Node)).(workflow.Gater)
		reason, err = gater.Gate(tx, t)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return reason
}

func (b codeBench) runs(node graph.NodeID, binding, patch string, allowed ...string) (facts []graph.Fact) {
	b.t.Helper()
	return b.runsBatch([]*store.Task{b.task(node, binding)}, patch, allowed...)
}

// task returns a task of the hook for this node and binding.
func (b codeBench) task(node graph.NodeID, binding string) *store.Task {
	return &store.Task{Node: string(node), Subject: graph.Subject{Module: b.module, Hook: "hook.sh", Binding: binding}, Prepared: true}
}

// runsBatch applies the outcome of one run of the hook for all tasks of batch, and returns the facts.
func (b codeBench) runsBatch(batch []*store.Task, patch string, allowed ...string) (facts []graph.Fact) {
	b.t.Helper()
	o := b.outcome(hook.Result{ValuesPatch: []byte(patch)})
	if len(allowed) > 0 {
		o = workflow.Outcome{Allowed: allowed[0]}
	}
	return b.applies(batch, o)
}

// outcome returns the outcome of a run of the recorded hook, before it is applied.
func (b codeBench) outcome(result hook.Result) workflow.Outcome {
	b.t.Helper()
	o, err := hookio.NewOutput(b.module).Outcome(b.input(), result)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// applies applies the outcome of a run for all tasks of batch, and returns the facts.
func (b codeBench) applies(batch []*store.Task, o workflow.Outcome) (facts []graph.Fact) {
	b.t.Helper()
	scantest.Update(b.t, b.s.DB, func(tx *store.Tx) error {
		var err error
		facts, err = b.hooks.Step(graph.NodeID(batch[0].Node)).Apply(tx, workflow.Task{Task: *batch[0], Batch: batch}, o)
		return err
	})
	return facts
}

func (b codeBench) expect(when string, want ...string) {
	b.t.Helper()
	var got []string
	if err := b.s.DB.View(func(tx *store.Tx) error {
		for _, section := range slices.Compact([]string{sections.Of(b.module), values.Global}) {
			saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
			if err != nil {
				return err
			}
			for _, s := range saved {
				got = append(got, s.Path)
			}
		}
		held, err := sections.Overrides(tx)
		for flag := range held {
			got = append(got, "/"+flag)
		}
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s: patched paths (-want +got):\n%s", when, diff)
	}
}

const wholeStart = `{"configVersion":"v1","onStartup":1,"beforeHelm":1,"afterHelm":1,` +
	`"kubernetes":[{"name":"a","kind":"Pod","group":"g"},{"name":"b","kind":"Pod","group":"g"},{"name":"c","kind":"Pod","executeHookOnSynchronization":false}],` +
	`"schedule":[{"name":"s","crontab":"0 3 * * *"}]}`

func TestPatchesOfEarlierCodeAreDroppedAfterTheLastBindingOfTheStart(t *testing.T) {
	b := newCodeBench(t, "web")
	b.puts("1", wholeStart)
	b.runs(lifecycle.ModuleOnStartup, "", `{"op":"add","path":"/web/kept","value":1}{"op":"add","path":"/web/left","value":1}{"op":"add","path":"/global/left","value":1}`)
	scantest.Update(t, b.s.DB, func(tx *store.Tx) error {
		saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(values.Global))
		saved = append(saved, values.Saved{Op: values.Op{Op: "remove", Path: "/global/other.sh"}, Hook: "other.sh"})
		return errors.Join(err, store.Save(tx, store.SavedKey(values.Global), saved))
	})
	all := []string{"/global/left", "/global/other.sh", "/web/kept", "/web/left"}

	b.puts("1", wholeStart)
	for _, node := range []graph.NodeID{lifecycle.ModuleOnStartup, lifecycle.ModuleBeforeHelm, lifecycle.ModuleAfterHelm} {
		b.runs(node, "", "")
	}
	b.runs(lifecycle.ModuleSynchronization, "a", "")
	b.puts("1 with another chart", wholeStart)
	for _, node := range []graph.NodeID{lifecycle.ModuleOnStartup, lifecycle.ModuleBeforeHelm, lifecycle.ModuleAfterHelm} {
		b.runs(node, "", "")
	}
	b.runs(lifecycle.ModuleSynchronization, "a", "")
	b.expect("after starts with the same code", all...)

	b.puts("2", wholeStart)
	b.runs(lifecycle.ModuleOnStartup, "", `{"op":"add","path":"/web/kept","value":1}`)
	b.runs(lifecycle.ModuleScheduleEvent, "s", "")
	b.runs(lifecycle.ModuleSynchronization, "a", "")
	b.runs(lifecycle.ModuleBeforeHelm, "", "")
	b.runs(lifecycle.ModuleAfterHelm, "", "", "a failure that the binding allows")
	b.expect("before the last binding has run with success", all...)
	b.puts("2", wholeStart) // simulates a new start of the operator
	b.runs(lifecycle.ModuleAfterHelm, "", "")
	b.expect("after the last binding", "/global/other.sh", "/web/kept")
	b.runs(lifecycle.ModuleAfterHelm, "", "")
	b.expect("after the next run", "/global/other.sh", "/web/kept")
}

func TestHookWithPatchesRunsSynchronizationAgainWhenItsCodeChangesAfterTheStart(t *testing.T) {
	b := newCodeBench(t, "web")
	scantest.Update(t, b.s.DB, func(tx *store.Tx) error { return store.Save(tx, store.StartupKey(), store.Startup{StartRun: 1}) })
	b.puts("1", wholeStart)
	b.attaches()
	b.runs(lifecycle.ModuleSynchronization, "a", `{"op":"add","path":"/web/left","value":1}`)
	b.runs(lifecycle.ModuleSynchronization, "c", "")
	if again := b.attaches(); len(again) > 0 {
		t.Fatalf("with the same code, Synchronization of %v runs again", again)
	}
	b.puts("2", wholeStart)
	if diff := cmp.Diff([]string{"a changed", "c changed"}, b.attaches()); diff != "" {
		t.Errorf("names with a Synchronization after the change (-want +got):\n%s", diff)
	}
}

func TestOverridesOfEarlierCodeAreDroppedAfterTheStart(t *testing.T) {
	b := newCodeBench(t, "")
	config := `{"configVersion":"v1","beforeAll":1,"afterAll":1}`
	b.puts("1", config)
	b.runs(lifecycle.GlobalBeforeAll, "", `{"op":"add","path":"/webEnabled","value":true}{"op":"add","path":"/otherEnabled","value":true}`)
	b.puts("2", config)
	b.runs(lifecycle.GlobalBeforeAll, "", `{"op":"add","path":"/otherEnabled","value":true}`)
	b.expect("before afterAll", "/otherEnabled", "/webEnabled")
	b.runs(lifecycle.GlobalAfterAll, "", "")
	b.expect("after afterAll", "/otherEnabled")
}

func TestPatchesOfAHookWithSchedulesOnlyAreDroppedAfterEachHasRun(t *testing.T) {
	b := newCodeBench(t, "web")
	config := `{"configVersion":"v1","schedule":[{"name":"s","crontab":"0 3 * * *"},{"name":"t","crontab":"0 4 * * *"}]}`
	b.puts("1", config)
	b.runs(lifecycle.ModuleScheduleEvent, "s", `{"op":"add","path":"/web/left","value":1}{"op":"add","path":"/global/left","value":1}`)
	b.puts("2", config)
	if facts := b.runs(lifecycle.ModuleScheduleEvent, "s", ""); len(facts) > 0 {
		t.Errorf("the first tick reports %v", facts)
	}
	b.expect("after the first schedule", "/global/left", "/web/left")
	if diff := cmp.Diff([]graph.Fact{lifecycle.ModuleChanged, lifecycle.GlobalChanged}, b.runs(lifecycle.ModuleScheduleEvent, "t", "")); diff != "" {
		t.Errorf("facts of the run that drops values (-want +got):\n%s", diff)
	}
	b.expect("after both")
}

func TestTicksCountInARunThatTheyShareWithEvents(t *testing.T) {
	config := `{"configVersion":"v1","kubernetes":[{"name":"k","kind":"Pod","executeHookOnSynchronization":false}],` +
		`"schedule":[{"name":"s","crontab":"0 3 * * *"},{"name":"t","crontab":"0 4 * * *"}]}`
	for name, order := range map[string][]int{"behind an event": {0, 1}, "before an event": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			b := newCodeBench(t, "web")
			b.puts("1", config)
			b.runs(lifecycle.ModuleScheduleEvent, "s", `{"op":"add","path":"/web/left","value":1}`)
			b.puts("2", config)
			tasks := []*store.Task{b.task(lifecycle.ModuleKubernetesEvent, "k"), b.task(lifecycle.ModuleScheduleEvent, "s")}
			b.runsBatch([]*store.Task{tasks[order[0]], tasks[order[1]]}, "")
			b.expect("before the tick of the other schedule", "/web/left")
			b.runs(lifecycle.ModuleScheduleEvent, "t", "")
			b.expect("after the ticks of both schedules")
		})
	}
}

func TestPatchesOfAHookThatOnlyEventsRunAreKept(t *testing.T) {
	b := newCodeBench(t, "web")
	config := `{"configVersion":"v1","kubernetes":[{"name":"c","kind":"Pod","executeHookOnSynchronization":false}]}`
	b.puts("1", config)
	b.runs(lifecycle.ModuleKubernetesEvent, "c", `{"op":"add","path":"/web/left","value":1}`)
	b.puts("2", config)
	b.runs(lifecycle.ModuleKubernetesEvent, "c", "")
	b.expect("after an event", "/web/left")
}

func TestAHookIsNotShownWhatItsEarlierCodePatched(t *testing.T) {
	b := newCodeBench(t, "web")
	b.puts("1", wholeStart)
	b.runs(lifecycle.ModuleOnStartup, "", `{"op":"add","path":"/web/left","value":1}`)
	shown := func(by string) any {
		t.Helper()
		var section any
		if err := b.s.DB.View(func(tx *store.Tx) error {
			l, err := b.s.Values.LayersOf(tx, "web")
			section, _ = sections.AsSeenBy(l, by).Section("web")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(section)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	own := sections.Author("web", "hook.sh")
	if got := shown(own); got != `{"left":1,"size":1}` {
		t.Errorf("with the same code, the hook is shown %s", got)
	}
	b.puts("2", wholeStart)
	if got := shown(own); got != `{"size":1}` {
		t.Errorf("with other code, the hook is shown %s", got)
	}
	if got := shown("web/other.sh"); got != `{"left":1,"size":1}` {
		t.Errorf("another hook is shown %s", got)
	}
}

func TestPatchesThatTheSchemaNeedsStay(t *testing.T) {
	b := newCodeBench(t, "web")
	b.puts("1", `{"configVersion":"v1","beforeHelm":1}`)
	b.runs(lifecycle.ModuleBeforeHelm, "", `{"op":"add","path":"/web/left","value":1}`)
	scantest.Write(t, b.s.Modules.Dirs()[0], "010-web/openapi/config-values.yaml", "{}")
	scantest.Write(t, b.s.Modules.Dirs()[0], "010-web/openapi/values.yaml", "required: [left]\nproperties: {left: {type: integer}, size: {type: integer}}")
	scantest.Scan(t, b.s)
	b.puts("2", `{"configVersion":"v1","beforeHelm":1}`)
	b.runs(lifecycle.ModuleBeforeHelm, "", "")
	b.expect("while the schema needs it", "/web/left")
	scantest.Write(t, b.s.Modules.Dirs()[0], "010-web/openapi/values.yaml", "properties: {left: {type: integer}, size: {type: integer}}")
	scantest.Scan(t, b.s)
	b.runs(lifecycle.ModuleBeforeHelm, "", "")
	b.expect("when it does not")
}

// input returns the input of the hook, read from the current state of the store.
func (b codeBench) input() (in hookio.Input) {
	b.t.Helper()
	if err := b.s.DB.View(func(tx *store.Tx) (err error) {
		in, err = b.hooks.Exchange.Read(tx, bindings.Hook{}, graph.Subject{Module: b.module, Hook: "hook.sh"}, false)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return in
}
