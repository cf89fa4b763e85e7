package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
)

// A ModuleState is the state of a module.
type ModuleState string

// States of a module. If several states apply, the one that is last in this list is shown.
const (
	ModuleOff         ModuleState = "off"         // not enabled, not installed
	ModulePending     ModuleState = "pending"     // the module is enabled, and its first run has not started or not ended yet
	ModuleOn          ModuleState = "on"          // the module is enabled and installed, even while its next run waits
	ModuleDeleting    ModuleState = "deleting"    // the module is being deleted, or waits for its deletion
	ModuleRunning     ModuleState = "running"     // a step of the module's run or deletion runs now
	ModuleFailing     ModuleState = "failing"     // a task of the module has failed and is retried
	ModuleBlocked     ModuleState = "blocked"     // the CRDs of the module cannot be installed, so the module is not run
	ModulePaused      ModuleState = "paused"      // a person paused the module
	ModuleQuarantined ModuleState = "quarantined" // a task of the module is in quarantine, because it crashed the operator
	ModuleBroken      ModuleState = "broken"      // the module cannot be loaded, or its record cannot be read
)

// A ModuleStatus is the state of one module, with the reason.
type ModuleStatus struct {
	State  ModuleState `json:"state"`
	Reason string      `json:"reason,omitempty"`
	// Since is the time at which the state began, for example the start of the running step or the first of the
	// consecutive failures. Since is zero if the time is not known.
	Since time.Time `json:"since,omitzero"`
}

// Modules has the states of all modules.
type Modules struct {
	Modules map[string]ModuleStatus `json:"modules"`
	// Problems has the problems for which [Problem.stored] returns true, and the problems of records that cannot be
	// read.
	Problems []Problem `json:"problems,omitempty"`
}

// Modules returns the states of all modules in the store.
func (r *Reader) Modules(tx *store.Tx) (Modules, error) {
	s, err := r.scan(tx)
	if err != nil {
		return Modules{}, err
	}
	problems, err := r.problems(s)
	if err != nil {
		return Modules{}, err
	}
	out, err := s.modules(problems)
	if err != nil {
		return out, err
	}
	damage, err := s.damage()
	out.Problems = append(out.Problems, damage...)
	return out, err
}

// modules returns the states of all modules. A running task or a problem of a module can replace
// the state that its record has.
func (s *scan) modules(problems []Problem) (Modules, error) {
	out := Modules{Modules: map[string]ModuleStatus{}}
	for k := range s.tx.Range(store.At(store.Modules)) {
		m, ok, err := load[store.Module](s.unreadable, k)
		if err != nil {
			return out, err
		}
		parts, err := k.Parts()
		if err != nil {
			return out, err
		}
		status := recorded(m)
		if !ok {
			status = ModuleStatus{State: ModuleBroken, Reason: "its record in the store cannot be read"}
		}
		out.Modules[parts.Str()] = status
		if err := parts.Err(); err != nil {
			return out, err
		}
	}
	// An item in another queue, such as a Synchronization, is shown only if no other step of the module runs.
	for _, inOwnQueue := range []bool{false, true} {
		for _, name := range s.names {
			q := s.queues[name]
			if t := cmp.Or(q.busy, q.head); t.OwnQueue == inOwnQueue {
				out.raise(t.Subject.Module, s.running(t))
			}
		}
	}
	for i := range problems {
		p := &problems[i]
		if p.stored() {
			out.Problems = append(out.Problems, *p)
		}
		if p.stored() && p.Kind != KindPaused {
			continue
		}
		out.raise(p.Subject.Module, p.status())
	}
	return out, nil
}

// recorded returns the state of a module according to its record only, without its tasks and
// problems.
func recorded(m store.Module) ModuleStatus {
	switch {
	case m.State == store.Deleting, m.State == store.Uninstalled:
		return ModuleStatus{State: ModuleDeleting, Reason: whyDeleted(&m), Since: m.DecidedAt}
	case m.State == store.On && !m.Enabled:
		return ModuleStatus{State: ModuleDeleting, Reason: cmp.Or(whyDeleted(&m), "not enabled") + "; its delete waits", Since: m.DecidedAt}
	case m.State == store.On && m.RanIn == 0 && m.RanInStart == 0:
		return ModuleStatus{State: ModulePending, Reason: "enabled; its first run has not ended"}
	case m.State == store.On:
		return ModuleStatus{State: ModuleOn}
	case m.Enabled:
		return ModuleStatus{State: ModulePending, Reason: "enabled; its first run has not started"}
	default:
		return ModuleStatus{State: ModuleOff}
	}
}

// whyDeleted returns the reason for which m is disabled; empty if the reason is not known yet.
func whyDeleted(m *store.Module) string {
	if m.Enabled {
		return "" // the ConfigMap has changed, and no discovery has followed yet
	}
	return m.Why
}

// resumedDeletion says that the deletion of a module goes on when an operator starts, and how to prevent this. The
// parameter reason is [ModuleStatus.Reason].
func resumedDeletion(name, reason string) string {
	text := "module " + name + " is being deleted"
	if reason != "" {
		text += ", because it is " + reason
	}
	return text + ". The deletion goes on when an operator starts. To keep the module, enable it again before the start"
}

// running returns the status of t's module if the task t runs. The status is zero if t does not run, or if t is an
// event or a schedule tick, which is not part of a run of the module.
func (s *scan) running(t *store.Task) ModuleStatus {
	if !s.claimed(t) || t.Subject.Binding != "" && t.Node != moduleSynchronization {
		return ModuleStatus{}
	}
	return ModuleStatus{State: ModuleRunning, Reason: t.Node, Since: t.Claim.Since}
}

// status returns the status of a module that has the problem p. The status is zero if p does not
// change the state of a module.
func (p *Problem) status() ModuleStatus {
	what := strings.TrimSpace(p.Node + " " + p.Subject.Hook + " " + p.Subject.Binding)
	switch p.Kind {
	case KindBroken:
		return ModuleStatus{State: ModuleBroken, Reason: p.Error, Since: p.At}
	case KindNoCRDs:
		return ModuleStatus{State: ModuleBlocked, Reason: "its CRDs cannot be installed: " + p.Error}
	case KindPaused:
		if p.Subject.Hook != "" {
			return ModuleStatus{}
		}
		return ModuleStatus{State: ModulePaused, Reason: p.Error, Since: p.At}
	case KindQuarantined:
		return ModuleStatus{State: ModuleQuarantined, Reason: what + " is quarantined as " + p.Task.String() + ": " + p.Error, Since: p.At}
	case KindFailing:
		return ModuleStatus{State: ModuleFailing, Reason: what + " failed " + plural(p.Try, "time", "times") + ": " + flat(p.Error), Since: p.Since}
	default:
		return ModuleStatus{}
	}
}

// gravest has the states of modules in ascending order of gravity. If several states apply to a
// module, the last one is shown.
var gravest = []ModuleState{
	"", ModuleOff, ModulePending, ModuleOn, ModuleDeleting, ModuleRunning, ModuleFailing, ModuleBlocked, ModulePaused, ModuleQuarantined,
	ModuleBroken,
}

// raise replaces the status of the module with the given name, if the new status is graver. raise
// ignores unknown modules.
func (m *Modules) raise(name string, to ModuleStatus) {
	is, known := m.Modules[name]
	if known && slices.Index(gravest, to.State) > slices.Index(gravest, is.State) {
		m.Modules[name] = to
	}
}

// ProblemsText returns the problems of [Modules.Problems] as text, each with its fix.
func ProblemsText(problems []Problem, layout Layout) string {
	p := &page{layout: layout}
	for i := range problems {
		if p.layout.Now.IsZero() {
			p.layout.Now = problems[i].At
		}
		p.stored(&problems[i])
	}
	return strings.Join(p.lines, "\n") + "\n"
}
