package main

import (
	"fmt"
	"strings"
	"time"

	"addon-operator/steps/report"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// HookSlow reports slow work: a run of a hook that takes long and much longer than earlier runs, an enabled script that
// takes long in the step DiscoverModules, or a long wait of Helm for a Helm hook. The command "status" shows the
// problem until the returned function is called. The caller must call it at the end of the run or of the wait.
func (o *lifecycleObserver) HookSlow(r report.SlowRun) (ended func()) {
	subject := r.Task.Subject
	kind, why := "hook", "no run of its current code has succeeded yet"
	if r.Longest > 0 {
		why = "its longest run with this code took " + r.Longest.Round(time.Millisecond).String()
	}
	what, hook := strings.TrimSpace(string(r.Node)+" "+subject.String()), subject.Hook
	switch {
	case r.Awaits != "":
		why, hook = "Helm waits for "+r.Awaits, r.Awaits
	case r.Node == lifecycle.DiscoverModules:
		kind, why = "enabled script", "no converge installs, upgrades or deletes a module until it ends"
	}
	o.log.Warn().Str("module", subject.Module).Str("hook", hook).Str("binding", subject.Binding).Str("node", string(r.Node)).
		Str("queue", r.Task.Queue).Str("task", r.Task.ID.String()).Time("since", r.Since).
		Msg(kind + " has been running for " + r.After.String() + "; " + why)
	o.notices.add(notice{reason: "HookSlow", message: fmt.Sprintf(
		"%s has been running for %s; %s. See what it waits for, or run addon-operator task cancel %s", what, r.After, why, r.Task.ID)})
	counted := o.metrics.HookSlow(subject.Module, hook)
	removed := o.slow.Add(inspect.Problem{
		Kind: inspect.KindSlow, Run: r.Task.Run, Task: r.Task.ID, Queue: r.Task.Queue, Node: string(r.Node),
		Subject: subject, At: r.Since, Error: why, Awaits: r.Awaits,
	})
	return func() {
		removed()
		counted()
		o.log.Info().Str("module", subject.Module).Str("hook", hook).Str("task", r.Task.ID.String()).Msg("slow " + kind + " has ended")
	}
}
