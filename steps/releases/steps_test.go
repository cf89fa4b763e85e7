package releases

import (
	"strings"
	"testing"

	"addon-operator/steps/report"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// silent is an Observer that does nothing.
type silent struct{ report.Silent }

func (silent) HelmBegins(string, string) func() { return func() {} }

func TestAModuleWithoutAUsableChartHasNoRelease(t *testing.T) {
	t.Parallel()
	s, mounted := scantest.New(t)
	const chart = "apiVersion: v2\nname: any\nversion: 1.0.0\n"
	scantest.Write(t, mounted, "020-broken/Chart.yaml", chart)
	scantest.Write(t, mounted, "020-broken/values.yaml", "broken: [")
	scantest.Write(t, mounted, "030-lost/Chart.yaml", chart)
	scantest.Scan(t, s)
	steps := New(Options{}, s, silent{}).Steps()
	for name, want := range map[string]string{
		"web": "", "broken": "020-broken/values.yaml", "gone": "module gone is not on disk any more", "lost": `record releases/lost cannot be read`,
	} {
		task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: name}}}
		for _, node := range []graph.NodeID{lifecycle.ReleaseCheck, lifecycle.ReleaseUpgrade} {
			scantest.Update(t, s.DB, func(tx *store.Tx) error { tx.Put(store.ReleaseKey("lost"), []byte(`{"revision":`)); return nil })
			o, err := steps[node].Do(t.Context(), task)
			scantest.Update(t, s.DB, func(tx *store.Tx) error { tx.Delete(store.ReleaseKey("lost")); return nil })
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) || len(o.Facts) > 0 {
					t.Errorf("%s of module %s: facts %q, %v; want an error with %s", node, name, o.Facts, err, want)
				}
				continue
			}
			if err != nil || o.Detail != "no chart" || len(o.Facts) > 0 {
				t.Errorf("%s of module %s: %q, facts %q, %v", node, name, o.Detail, o.Facts, err)
			}
			step, applies := steps[node].(workflow.Applier)
			if !applies {
				t.Fatalf("%s saves nothing", node)
			}
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				facts, err := step.Apply(tx, task, o)
				if len(facts) > 0 || tx.Get(store.ReleaseKey(name)) != nil {
					t.Errorf("%s of module %s: facts %q, record %s", node, name, facts, tx.Get(store.ReleaseKey(name)))
				}
				return err
			})
		}
	}
}
