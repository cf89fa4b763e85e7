package bindings_test

import (
	"fmt"
	"testing"

	"addon-operator/internal/hook"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// The package hook cannot import the engine, so it repeats the names of the engine's queues.
func TestAHookCannotNameAQueueOfTheEngine(t *testing.T) {
	t.Parallel()
	load := func(queue string) error {
		config := fmt.Sprintf("{configVersion: v1, schedule: [{crontab: '@hourly', queue: %q}]}", queue)
		_, err := hook.Load(hook.Module, []byte(config))
		return err
	}
	for _, queue := range []string{workflow.Parked, "parallel-module-web", graph.Subject{Configuration: "ops/all"}.Queue()} {
		if load(queue) == nil {
			t.Errorf("a hook can name the queue %q", queue)
		}
	}
	for _, queue := range []string{workflow.Main, "parallel-0", "configuration", "web"} {
		if err := load(queue); err != nil {
			t.Errorf("a hook cannot name the queue %q: %v", queue, err)
		}
	}
}
