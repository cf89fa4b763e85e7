package converge

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

// hookStep is an ItemStep that has no hooks to run.
type hookStep struct{ workflow.ItemStep }

func (hookStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

// ended counts the ends of converges.
type ended int

func (n *ended) Converged() { *n++ }

func TestTheEndOfAConvergeReportsWhetherItsHooksChangedGlobalValues(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*store.Tx) error{
		"": func(*store.Tx) error { return nil },
		"a value": func(tx *store.Tx) error {
			op := values.Op{Op: "add", Path: "/global/n", Value: json.RawMessage("1")}
			return store.Save(tx, store.SavedKey(values.Global), []values.Saved{{Op: op, Hook: "h"}})
		},
		"a flag": func(tx *store.Tx) error {
			return store.Save(tx, store.EnabledOverridesKey(), map[string]values.EnabledOverride{"webEnabled": {Value: true, Hook: "h"}})
		},
	} {
		state, _ := scantest.New(t)
		scantest.Scan(t, state)
		var n ended
		step := &endStep{ItemStep: hookStep{}, values: state.Values, changes: &n}
		task := workflow.Task{Task: store.Task{Run: 7}}
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			_, note, err := step.Items(tx, task)
			task.FanOut = &store.FanOut{Note: note}
			return err
		})
		scantest.Update(t, state.DB, change)
		var want []graph.Fact
		if what != "" {
			want = []graph.Fact{lifecycle.GlobalChanged}
		}
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			facts, err := step.End(tx, task, nil)
			if diff := cmp.Diff(want, facts); diff != "" {
				t.Errorf("changed %q: facts (-want +got):\n%s", what, diff)
			}
			l, failed := store.LoadStartup(tx)
			if l.Converged != 7 || l.ConvergedIn != tx.Epoch() || !l.ConvergedAt.Equal(tx.Now()) || failed != nil {
				t.Errorf("record %+v, %v", l, failed)
			}
			return err
		})
		if n != 1 {
			t.Errorf("%d ends are reported", n)
		}
	}
}
