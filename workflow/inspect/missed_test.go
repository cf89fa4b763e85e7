package inspect_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// TestAMissedTickIsMendedByOneWholeCommand reads the same problem in status, why and diagnose. The command must have a
// line of its own, so that a person can copy it even if the texts around it are long.
func TestAMissedTickIsMendedByOneWholeCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.BindingKey("backup", "hooks/dump.sh", "every year"), store.Binding{Kind: store.Schedule})
		})
		missed := inspect.Problem{
			Kind: inspect.KindMissedTick, Subject: graph.Subject{Module: "backup", Hook: "hooks/dump.sh", Binding: "every year"},
			Object: "crontab 0 3 1 1 *", At: w.db.Now().Add(-time.Minute),
			Error:   "hook backup/hooks/dump.sh missed a tick of its crontab, because no operator ran then",
			Command: []string{"hook", "run", "backup/hooks/dump.sh", "every year"},
			Effect:  "runs the hook as at the tick. Or wait for the next tick. " + strings.Repeat("The text is longer than three lines. ", 8),
		}
		r := inspect.Reader{Live: true, Missed: func(*store.Tx) ([]inspect.Problem, error) { return []inspect.Problem{missed}, nil }}
		why, err := w.explain(r, "backup/hooks/dump.sh")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now = why.At
		const command = "addon-operator hook run backup/hooks/dump.sh 'every year'\n"
		for name, text := range map[string]string{
			"status":   inspect.StatusText(w.status(r), l),
			"why":      inspect.WhyText(why, l),
			"diagnose": inspect.DiagnosisText(w.diagnose(r, inspect.StatusOperator{}), l),
		} {
			if !strings.Contains(text, "fix: "+command) && !strings.Contains(text, "fix:  "+command) {
				t.Errorf("%s has no line with the command:\n%s", name, text)
			}
			if strings.Contains(text, "since ") {
				t.Errorf("%s says since when the problem exists, although a missed tick has only one time:\n%s", name, text)
			}
		}
		if text := inspect.WhyText(why, l); !strings.HasPrefix(text, "Why has backup/hooks/dump.sh not run?\n") || strings.Contains(text, "no event or tick") {
			t.Errorf("why does not begin with the missed tick:\n%s", text)
		}
	})
}

func TestACommandAtTheEndOfASentenceCanBeCopied(t *testing.T) {
	t.Parallel()
	d := &inspect.Diagnosis{Findings: []inspect.Finding{{Text: "x", Fix: "see it: kubectl get namespace shop -o yaml. Do nothing else"}}}
	if text := inspect.DiagnosisText(d, layout); !strings.Contains(text, "  fix:  see it: kubectl get namespace shop -o yaml\n        Do nothing else\n") {
		t.Errorf("the command does not end its line:\n%s", text)
	}
}
