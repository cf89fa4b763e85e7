package hookrun_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// written returns the outcome of a run of the recorded hook that has written this values patch.
func (b codeBench) written(patch string) workflow.Outcome {
	b.t.Helper()
	return b.outcome(hook.Result{ValuesPatch: []byte(patch)})
}

// ends applies the outcome o at the end of the task of the hook for this node and binding.
func (b codeBench) ends(node graph.NodeID, binding string, o workflow.Outcome) (facts []graph.Fact) {
	b.t.Helper()
	return b.applies([]*store.Task{b.task(node, binding)}, o)
}

func TestValuesOfAHookThatWasRemovedDuringItsRunAreNotSaved(t *testing.T) {
	for name, test := range map[string]struct {
		module, config, patch string
		node                  graph.NodeID
	}{
		"global hook": {
			"", `{"configVersion":"v1","beforeAll":1}`,
			`{"op":"add","path":"/webEnabled","value":true}{"op":"add","path":"/global/left","value":1}`, lifecycle.GlobalBeforeAll,
		},
		"hook of a module": {
			"web", `{"configVersion":"v1","beforeHelm":1}`,
			`{"op":"add","path":"/web/left","value":1}{"op":"add","path":"/global/left","value":1}`, lifecycle.ModuleBeforeHelm,
		},
		"schedule of a module": {
			"web", `{"configVersion":"v1","schedule":[{"name":"s","crontab":"0 3 * * *"}]}`,
			`{"op":"add","path":"/web/left","value":1}{"op":"add","path":"/global/left","value":1}`, lifecycle.ModuleScheduleEvent,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCodeBench(t, test.module)
			b.puts("1", test.config)
			o := b.written(test.patch)
			b.removes()
			if facts := b.ends(test.node, "", o); len(facts) > 0 {
				t.Errorf("the run reports %v", facts)
			}
			b.expect("after the run of the removed hook")
		})
	}
}

func TestConfigMapThatARemovedHookWroteIsInForce(t *testing.T) {
	b := newCodeBench(t, "")
	b.puts("1", `{"configVersion":"v1","schedule":[{"name":"s","crontab":"0 3 * * *"}]}`)
	o := b.outcome(hook.Result{ConfigPatch: []byte(`{"op":"add","path":"/webEnabled","value":true}`)})
	b.removes()
	if diff := cmp.Diff([]graph.Fact{lifecycle.GlobalChanged}, b.ends(lifecycle.GlobalScheduleEvent, "s", o)); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if err := b.s.DB.View(func(tx *store.Tx) error {
		config, err := b.s.Applied.InForce(tx)
		if diff := cmp.Diff(map[string]bool{"webEnabled": true}, config.Flags); diff != "" {
			t.Errorf("flags in force (-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestValuesOfARunThatEndsAfterAChangeOfTheCodeAreDroppedAsThoseOfEarlierCode(t *testing.T) {
	const (
		twoBindings = `{"configVersion":"v1","onStartup":1,"beforeHelm":1}`
		both        = `{"op":"add","path":"/web/kept","value":1}{"op":"add","path":"/web/left","value":1}{"op":"add","path":"/global/left","value":1}`
	)
	all := []string{"/global/left", "/web/kept", "/web/left"}
	for name, change := range map[string]func(b codeBench){
		"other code":          func(b codeBench) { b.puts("2", twoBindings) },
		"other configuration": func(b codeBench) { b.puts("1", `{"configVersion":"v1","onStartup":2,"beforeHelm":1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newCodeBench(t, "web")
			b.puts("1", twoBindings)
			o := b.written(both)
			change(b)
			b.ends(lifecycle.ModuleOnStartup, "", o)
			b.expect("after the run of the earlier code", all...)
			b.runs(lifecycle.ModuleBeforeHelm, "", `{"op":"add","path":"/web/kept","value":1}`)
			b.expect("before the onStartup run of the new code", all...)
			b.runs(lifecycle.ModuleOnStartup, "", "")
			b.expect("after the last binding", "/web/kept")
		})
	}
}

func TestOverrideOfARunThatEndsAfterAChangeOfTheCodeIsDroppedAsThatOfEarlierCode(t *testing.T) {
	b := newCodeBench(t, "")
	config := `{"configVersion":"v1","beforeAll":1}`
	b.puts("1", config)
	o := b.written(`{"op":"add","path":"/webEnabled","value":true}{"op":"add","path":"/otherEnabled","value":true}`)
	b.puts("2", config)
	b.ends(lifecycle.GlobalBeforeAll, "", o)
	b.expect("after the run of the earlier code", "/otherEnabled", "/webEnabled")
	b.runs(lifecycle.GlobalBeforeAll, "", `{"op":"add","path":"/otherEnabled","value":true}`)
	b.expect("after the run of the new code", "/otherEnabled")
}

func TestRunOfEarlierCodeIsNoRunOfTheNewCode(t *testing.T) {
	b := newCodeBench(t, "web")
	config := `{"configVersion":"v1","schedule":[{"name":"s","crontab":"0 3 * * *"}]}`
	b.puts("1", config)
	b.runs(lifecycle.ModuleScheduleEvent, "s", `{"op":"add","path":"/web/left","value":1}`)
	o := b.written("")
	b.puts("2", config)
	b.ends(lifecycle.ModuleScheduleEvent, "s", o)
	b.expect("after the run of the earlier code", "/web/left")
	b.runs(lifecycle.ModuleScheduleEvent, "s", "")
	b.expect("after the run of the new code")
}

// The new code is saved before the onStartup hooks, and the bindings are attached after them. Between the two, a
// Synchronization of the earlier code ends.
func TestSynchronizationOfEarlierCodeIsNoSynchronizationOfTheNewCode(t *testing.T) {
	const pods = `{"configVersion":"v1","schedule":[{"name":"s","crontab":"0 3 * * *"}],"kubernetes":[{"name":"c","kind":"Pod"}]}`
	for name, change := range map[string]func(b codeBench){
		"other code":   func(b codeBench) { b.puts("2", pods) },
		"other filter": func(b codeBench) { b.puts("1", strings.Replace(pods, `"Pod"`, `"Pod","jqFilter":".a"`, 1)) },
		"one more binding": func(b codeBench) {
			b.puts("1", strings.Replace(pods, `"kubernetes":[`, `"kubernetes":[{"name":"n","kind":"Node","executeHookOnSynchronization":false},`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCodeBench(t, "web")
			scantest.Update(t, b.s.DB, func(tx *store.Tx) error { return store.Save(tx, store.StartupKey(), store.Startup{StartRun: 1}) })
			b.puts("1", pods)
			b.attaches()
			o := b.written("")
			change(b)
			b.ends(lifecycle.ModuleSynchronization, "c", o)
			const want = "module web has yet to run its onStartup hooks in this start"
			for _, node := range []graph.NodeID{lifecycle.ModuleKubernetesEvent, lifecycle.ModuleScheduleEvent, lifecycle.ModuleSynchronization} {
				if got := b.awaits(b.task(node, "c")); got != want {
					t.Errorf("before the bindings are attached again, %s awaits %q", node, got)
				}
			}
			if got := b.attaches(); !slices.Contains(got, "c changed") {
				t.Errorf("the Synchronizations of %v run again", got)
			}
			if got := b.awaits(b.task(lifecycle.ModuleSynchronization, "c")); got != "" {
				t.Errorf("after the bindings are attached again, the Synchronization awaits %q", got)
			}
		})
	}
}

// The run of the earlier code replaces a value that the new code has already written for one of its bindings. This
// value must not be dropped before the new code has run for that binding again.
func TestRunOfEarlierCodeMakesTheNewCodeRunForAllBindingsAgain(t *testing.T) {
	b := newCodeBench(t, "web")
	config := `{"configVersion":"v1","onStartup":1,"beforeHelm":1}`
	b.puts("1", config)
	b.runs(lifecycle.ModuleOnStartup, "", `{"op":"add","path":"/web/left","value":1}`)
	o := b.written(`{"op":"add","path":"/web/kept","value":1}`)
	b.puts("2", config)
	b.runs(lifecycle.ModuleOnStartup, "", `{"op":"add","path":"/web/kept","value":2}`)
	b.ends(lifecycle.ModuleBeforeHelm, "", o)
	b.runs(lifecycle.ModuleBeforeHelm, "", "")
	b.expect("before the next onStartup run", "/web/kept", "/web/left")
	b.runs(lifecycle.ModuleOnStartup, "", `{"op":"add","path":"/web/kept","value":2}`)
	b.expect("after the next onStartup run", "/web/kept")
}

func TestRunOfEarlierCodeOfAHookThatOnlyEventsRunKeepsItsValues(t *testing.T) {
	b := newCodeBench(t, "web")
	config := `{"configVersion":"v1","kubernetes":[{"name":"c","kind":"Pod","executeHookOnSynchronization":false}]}`
	b.puts("1", config)
	o := b.written(`{"op":"add","path":"/web/left","value":1}`)
	b.puts("2", config)
	b.ends(lifecycle.ModuleKubernetesEvent, "c", o)
	b.runs(lifecycle.ModuleKubernetesEvent, "c", "")
	b.expect("after an event", "/web/left")
}

// A version of the operator that did not store the code of the hook may have stored the outcome.
func TestStoredOutputWithoutItsCodeIsSaved(t *testing.T) {
	for name, change := range map[string]func(b codeBench, config string){
		"removed hook": func(b codeBench, _ string) { b.removes() },
		"other code":   func(b codeBench, config string) { b.puts("2", config) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newCodeBench(t, "web")
			config := `{"configVersion":"v1","beforeHelm":1}`
			b.puts("1", config)
			o := b.written(`{"op":"add","path":"/web/kept","value":1}`)
			data := map[string]any{}
			if err := json.Unmarshal(o.Data, &data); err != nil {
				t.Fatal(err)
			}
			delete(data, "code")
			var err error
			if o.Data, err = json.Marshal(data); err != nil {
				t.Fatal(err)
			}
			change(b, config)
			b.ends(lifecycle.ModuleBeforeHelm, "", o)
			b.expect("after the run", "/web/kept")
			if name == "other code" {
				b.runs(lifecycle.ModuleBeforeHelm, "", "")
				b.expect("after a run of the new code", "/web/kept")
			}
		})
	}
}
