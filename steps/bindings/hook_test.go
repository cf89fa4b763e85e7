package bindings_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestTimeoutsOfARunAreThoseOfItsBindings(t *testing.T) {
	t.Parallel()
	const config = `{"configVersion": "v1", "beforeHelm": 1, "kubernetes": [{"name": "short", "kind": "Pod", "timeout": "1m"}, {"name": "none", "kind": "Pod"}],
		"schedule": [{"name": "long", "crontab": "* * * * *", "timeout": "1h"}]`
	for name, c := range map[string]struct {
		settings string
		bindings []string
		want     []time.Duration
	}{
		"an ordered binding":                       {"", []string{""}, []time.Duration{0}},
		"an ordered binding, with settings":        {`, "settings": {"timeout": "2m"}`, []string{""}, []time.Duration{2 * time.Minute}},
		"several bindings":                         {"", []string{"short", "long", "short"}, []time.Duration{time.Minute, time.Hour, time.Minute}},
		"a binding without a timeout":              {"", []string{"short", "none"}, []time.Duration{time.Minute, 0}},
		"a binding that does not exist any more":   {"", []string{"gone", "short"}, []time.Duration{time.Minute}},
		"only such a binding":                      {`, "settings": {"timeout": "2m"}`, []string{"gone"}, []time.Duration{2 * time.Minute}},
		"a binding without one, and with settings": {`, "settings": {"timeout": "2m"}`, []string{"none", "short"}, []time.Duration{2 * time.Minute, time.Minute}},
	} {
		parsed, err := hook.Load(hook.Module, []byte(config+c.settings+"}"))
		if err != nil {
			t.Fatal(err)
		}
		var batch []*store.Task
		for i, binding := range c.bindings {
			batch = append(batch, &store.Task{ID: store.ID{N: uint64(i)}, Subject: graph.Subject{Binding: binding}}) //nolint:gosec // a few
		}
		got := bindings.Hook{Config: parsed}.Timeouts(workflow.Task{Task: *batch[0], Batch: batch})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
