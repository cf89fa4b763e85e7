package modulerun

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// hookStep is an ItemStep that lists one hook.
type hookStep struct{ workflow.ItemStep }

func (hookStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return []graph.Item{{Subject: graph.Subject{Module: "web", Hook: "h"}}}, nil, nil
}

// A reported is a Survey and an Observer that records its calls in order.
type reported struct{ calls []string }

func (r *reported) RunBegan(_ *store.Tx, name string) { r.calls = append(r.calls, "began "+name) }
func (r *reported) RunEnded(_ *store.Tx, name string) { r.calls = append(r.calls, "survey "+name) }
func (r *reported) ModuleRan(name string)             { r.calls = append(r.calls, "ran "+name) }

func TestTheEndOfARunReportsWhetherItsHooksChangedValues(t *testing.T) {
	t.Parallel()
	for _, change := range []bool{false, true} {
		state, _ := scantest.New(t)
		scantest.Scan(t, state)
		var r reported
		step := &endStep{ItemStep: hookStep{}, values: state.Values, survey: &r, observer: &r}
		task := workflow.Task{Task: store.Task{Run: 7, Subject: graph.Subject{Module: "web"}}}
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			if err := store.Save(tx, store.StartupKey(), store.Startup{StartRun: 3}); err != nil {
				return err
			}
			items, note, err := step.Items(tx, task)
			if task.FanOut = (&store.FanOut{Note: note}); len(items) != 1 {
				t.Errorf("hooks %v", items)
			}
			return err
		})
		if change {
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				op := values.Op{Op: "add", Path: "/web/n", Value: json.RawMessage("1")}
				return store.Save(tx, store.SavedKey("web"), []values.Saved{{Op: op, Hook: "web/h"}})
			})
		}
		var want []graph.Fact
		if change {
			want = []graph.Fact{lifecycle.ModuleChanged}
		}
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			facts, err := step.End(tx, task, nil)
			if diff := cmp.Diff(want, facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			m, _, failed := store.Load[store.Module](tx, store.ModuleKey("web"))
			if m.RanInStart != 3 || m.RanIn != 7 || !m.RanAt.Equal(tx.Now()) || failed != nil {
				t.Errorf("record %+v, %v", m, failed)
			}
			return err
		})
		if diff := cmp.Diff([]string{"survey web", "ran web"}, r.calls); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	}
}
