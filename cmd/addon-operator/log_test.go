package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// TestLinesInJSONHaveTheKeysOfAddonOperator logs a history record in JSON, and compares the keys of
// the line with those of flant/addon-operator.
func TestLinesInJSONHaveTheKeysOfAddonOperator(t *testing.T) {
	var out bytes.Buffer
	log, err := newLog(settings.Settings{LogType: "json", LogLevel: "info"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	logRecord(log, store.Record{
		Node: string(lifecycle.ModuleKubernetesEvent), Task: store.ID{Epoch: 3, N: 7}, State: store.Done, Began: time.Unix(1, 0), Ended: time.Unix(2, 0),
	})
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for key, want := range map[string]any{
		"level": "info", "msg": "done", "logger": "addon-operator", "task.id": "3-7", "event.type": "kubernetes",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if _, hasTime := line["time"]; !hasTime {
		t.Errorf("no time in %s", out.String())
	}
}

// TestTasksInQueueMetricsHaveTheTypesOfAddonOperator checks the metric labels of tasks that run hooks, and of other
// tasks.
func TestTasksInQueueMetricsHaveTheTypesOfAddonOperator(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]string{
		string(lifecycle.ModuleBeforeHelm): "ModuleRun", string(lifecycle.ModuleScheduleEvent): "ModuleHookRun",
		string(lifecycle.GlobalAfterAll): "GlobalHookRun", string(lifecycle.DiscoverModules): "ConvergeModules", "another-node": "another-node",
	} {
		if got := debugapi.TaskType(node); got != want {
			t.Errorf("%s is %s, want %s", node, got, want)
		}
	}
	if got := waitedAs(graph.Subject{Module: "m"}, string(lifecycle.ModuleRun), "main"); got.Name != "ModuleRun" || got.Module != "m" {
		t.Errorf("a module's run: %+v", got)
	}
	if got := waitedAs(graph.Subject{Module: "m", Hook: "h", Binding: "pods"}, string(lifecycle.ModuleKubernetesEvent), "q"); got.Name != "pods" || got.Hook != "h" {
		t.Errorf("a hook's run: %+v", got)
	}
}
