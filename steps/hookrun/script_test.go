package hookrun

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/steps/hooks"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A hangingScript is a runner whose enabled scripts end when their context ends.
type hangingScript struct{ hooks.Runner }

func (hangingScript) Enabled(ctx context.Context, _ hook.EnabledRun) (bool, string, error) {
	<-ctx.Done()
	return false, "", context.Cause(ctx)
}

// slowRuns receives the slow runs that are reported, and has those that have not ended.
type slowRuns struct {
	report.Silent

	current map[string]bool // by subject
}

func (s slowRuns) HookSlow(r report.SlowRun) func() {
	subject := r.Task.Subject.String()
	s.current[subject] = true
	return func() { delete(s.current, subject) }
}

func TestEnabledScriptThatDoesNotEndIsReportedAsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowRuns{current: map[string]bool{}}
		h := &Hooks{reports: &report.Runs{Log: oncelog.New(zerolog.Nop()), Observer: slow}, runner: hangingScript{}}
		task := workflow.Task{Task: store.Task{
			Node: "discover-modules", Subject: graph.Subject{Module: "web", Hook: "enabled"}, Claim: &store.Claim{Since: time.Now()},
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = h.RunScript(ctx, task, hook.EnabledRun{})
		}()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if !slow.current["web/enabled"] {
			t.Errorf("the slow runs are %v", slow.current)
		}
		stop()
		<-ended
		if len(slow.current) > 0 {
			t.Errorf("the slow runs at the end are %v", slow.current)
		}
	})
}
