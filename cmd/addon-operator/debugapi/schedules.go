package debugapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// A ScheduleLine is an attached schedule binding of a hook.
type ScheduleLine struct {
	Binding string `json:"binding"`
	Crontab string `json:"crontab"`
	// Last is the time of the last tick. Until the first tick, Last is the time at which the binding was attached.
	Last time.Time `json:"last,omitzero"`
	// Next is the time of the next tick, or zero if the schedule never ticks or no operator runs.
	Next time.Time `json:"next,omitzero"`
	// Missed is the time of the first tick after Last that was missed because no operator ran. Missed is zero if no
	// tick was missed, or if no operator runs now.
	Missed time.Time `json:"missed,omitzero"`
	// Never is set if the crontab selects no time.
	Never bool `json:"never,omitempty"`
}

// attachedSchedules returns, by hook, the attached schedule bindings whose keys in the store begin with the given key.
// The argument live says whether an operator runs. If it is false, the lines have no next and no missed tick.
func attachedSchedules(tx *store.Tx, of store.Key, live bool) (map[graph.Subject][]ScheduleLine, error) {
	out := map[graph.Subject][]ScheduleLine{}
	for k := range tx.Range(of) {
		b, _, err := store.Load[store.Binding](tx, k)
		if err != nil {
			return nil, err
		}
		if b.Kind != store.Schedule || b.Detached {
			continue
		}
		subject, err := store.ParseBindingKey(k)
		if err != nil {
			return nil, err
		}
		line, err := scheduleLine(tx, subject, b.Config, live)
		if err != nil {
			return nil, err
		}
		owner := graph.Subject{Module: subject.Module, Hook: subject.Hook}
		out[owner] = append(out[owner], line)
	}
	return out, nil
}

// scheduleLine returns the line of a schedule binding. The next tick is the first time of the crontab that is after the
// last tick and not in the past.
func scheduleLine(tx *store.Tx, subject graph.Subject, config json.RawMessage, live bool) (line ScheduleLine, err error) {
	var c hook.ScheduleBinding
	if err := json.Unmarshal(config, &c); err != nil {
		return line, err
	}
	line = ScheduleLine{Binding: subject.Binding, Crontab: c.Crontab}
	last, ticked, err := store.Load[time.Time](tx, store.TickKey(subject))
	if err != nil {
		return line, err
	}
	now := tx.Now()
	if ticked {
		line.Last = last
	}
	switch {
	case tickAfter(c.Crontab, now).IsZero():
		line.Never = true
		return line, nil
	case !live:
		return line, nil
	case !ticked || last.After(now):
		last = now
	}
	if line.Next = tickAfter(c.Crontab, last); line.Next.Before(now) {
		if now.Sub(line.Next) > tickDelay {
			line.Missed = line.Next
		}
		line.Next = tickAfter(c.Crontab, now)
	}
	return line, nil
}

const (
	// tickDelay is the maximum delay of a tick. A tick that is later is treated as missed.
	tickDelay = time.Minute
	// longPeriod is the minimum time between ticks for which a missed tick is a problem. If the time between ticks is
	// shorter, the schedule ticks again before a person can react.
	longPeriod = time.Hour
)

// missedTicks returns a problem for each schedule binding that missed a tick and has not ticked since. missedTicks
// leaves out bindings that tick more often than once in longPeriod.
func missedTicks(tx *store.Tx) (problems []inspect.Problem, _ error) {
	schedules, err := attachedSchedules(tx, store.At(store.Bindings), true)
	if err != nil {
		return nil, err
	}
	for of, lines := range schedules {
		for _, line := range lines {
			if line.Missed.IsZero() || tickAfter(line.Crontab, line.Missed).Sub(line.Missed) < longPeriod {
				continue
			}
			problems = append(problems, inspect.Problem{
				Kind: inspect.KindMissedTick, Subject: graph.Subject{Module: of.Module, Hook: of.Hook, Binding: line.Binding},
				Object: "crontab " + line.Crontab, At: line.Missed,
				Error:   "hook " + of.String() + " missed a tick of its crontab " + strconv.Quote(line.Crontab) + ", because no operator ran then",
				Command: runCommand(of, line.Binding, len(lines)),
				Effect: "runs the hook as at the tick. Or wait for the next tick, at " + inspect.Layout{}.Clock(line.Next) +
					". With the flag --schedule-missed=once, the operator itself makes up for missed ticks when it starts",
			})
		}
	}
	slices.SortFunc(problems, func(a, b inspect.Problem) int { return strings.Compare(a.Subject.String(), b.Subject.String()) })
	return problems, nil
}

// runCommand returns the arguments of the command that runs a hook as a tick of the schedule binding would run it.
// schedules is the number of schedule bindings of the hook. If it is 1, the command need not name the binding.
func runCommand(hook graph.Subject, binding string, schedules int) []string {
	command := []string{"hook", "run", hook.String()}
	if schedules > 1 {
		command = append(command, binding)
	}
	return command
}

// tickAfter returns the first time after t that a crontab selects, or the zero time if the crontab
// selects none. An invalid crontab, which another version of the operator may have stored, selects
// no time.
func tickAfter(crontab string, t time.Time) time.Time {
	schedule, err := hook.ParseCrontab(crontab)
	if err != nil {
		return time.Time{}
	}
	return schedule.Next(t)
}

// nextTick returns the earliest next tick of a hook as text. The text also says whether a schedule never
// ticks.
func (h *HookLine) nextTick(layout inspect.Layout) string {
	var next time.Time
	never := false
	for _, s := range h.Schedules {
		never = never || s.Never
		if !s.Next.IsZero() && (next.IsZero() || s.Next.Before(next)) {
			next = s.Next
		}
	}
	switch {
	case !next.IsZero() && never:
		return layout.Clock(next) + ", one never"
	case !next.IsZero():
		return layout.Clock(next)
	case never:
		return "never"
	default:
		return "-"
	}
}
