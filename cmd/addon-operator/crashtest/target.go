package crashtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Target is the [workflow.Moment] of a step at which the operator is killed.
type Target struct {
	Node    graph.NodeID    `json:"node"`
	Subject graph.Subject   `json:"subject,omitzero"`
	At      workflow.Moment `json:"at"`
	// Nth is 1 for the first time that the step reaches the moment, 2 for the second time, and so on.
	Nth int `json:"nth"`
}

// moments has the word for each moment at which the operator can be killed.
var moments = map[workflow.Moment]string{
	workflow.AtClaimed: "before", workflow.AtEnded: "after", workflow.AtDone: "after the effects of",
}

// String returns the target as text, such as "after module-beforehelm web/hooks/a.sh (occurrence 2)".
func (t Target) String() string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s", cmp.Or(moments[t.At], string(t.At)), t.Node, t.Subject))
	if t.Nth > 1 {
		text += fmt.Sprintf(" (occurrence %d)", t.Nth)
	}
	return text
}

// doer names the hook, chart or module that runs in a step, or the step if it belongs to no module.
func doer(node graph.NodeID, s graph.Subject) string {
	switch {
	case s.Hook != "" && s.Module != "":
		return "hook " + s.Hook + " of module " + s.Module
	case s.Hook != "":
		return "global hook " + s.Hook
	case node == lifecycle.ReleaseCheck || node == lifecycle.ReleaseUpgrade || node == lifecycle.ReleaseDelete || node == lifecycle.EnsureCRDs:
		return "chart of module " + s.Module
	case s.Module != "":
		return "module " + s.Module + ", step " + string(node)
	default:
		return "step " + string(node)
	}
}

// byClock are the nodes of schedules. The tasks of these nodes depend on the time, so the operator
// is not killed at these nodes.
var byClock = []graph.NodeID{lifecycle.GlobalScheduleEvent, lifecycle.ModuleScheduleEvent}

// recorder counts the moments that a run reaches.
type recorder struct {
	reached map[Target]int  // how often each moment was reached; Nth is 0 in the keys
	effects map[Target]bool // steps whose current attempt has effects; the keys have only Node and Subject
	targets []Target
}

func newRecorder() *recorder { return &recorder{map[Target]int{}, map[Target]bool{}, nil} }

// record returns the target that m reports. If the reported moment is no target, record returns the zero Target: at
// every AtEffect, at AtDone if the attempt has no effects, and at all moments of the nodes of schedules.
func (r *recorder) record(m message) (t Target) {
	step := Target{Node: m.Node, Subject: m.Subject}
	switch m.At {
	case workflow.AtClaimed:
		delete(r.effects, step)
	case workflow.AtEffect:
		r.effects[step] = true
		return t
	case workflow.AtEnded:
	case workflow.AtDone:
		if !r.effects[step] {
			return t
		}
	}
	if slices.Contains(byClock, m.Node) {
		return t
	}
	t = Target{Node: m.Node, Subject: m.Subject, At: m.At}
	r.reached[t]++
	t.Nth = r.reached[t]
	r.targets = append(r.targets, t)
	return t
}

// selection selects the tested targets. Empty fields select all.
type selection struct {
	steps, modules []string
	// most is the maximum number of rounds; 0 means no limit.
	most int
}

// choose returns the selected targets, in the order in which the argument all has them. If s.most is not 0, and more
// than s.most targets are selected, choose returns s.most of them, at about equal distances. If at least 2*s.most
// targets are selected, choose takes every second target one position later. Without this shift, an even distance could
// select only moments of one kind, because moments before a step usually alternate with moments after a step.
func (s selection) choose(all []Target) (out []Target) {
	for _, t := range all {
		if (len(s.steps) == 0 || slices.Contains(s.steps, string(t.Node))) && (len(s.modules) == 0 || slices.Contains(s.modules, t.Subject.Module)) {
			out = append(out, t)
		}
	}
	if s.most <= 0 || len(out) <= s.most {
		return out
	}
	spread := make([]Target, s.most)
	for i := range spread {
		at := i * len(out) / s.most
		if len(out) >= 2*s.most {
			at += i % 2
		}
		spread[i] = out[at]
	}
	return spread
}
