package debugapi

import (
	"encoding/json"
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
	// Last is the last tick. It is zero if there was none.
	Last time.Time `json:"last,omitzero"`
	// Next is the next tick. It is zero if the schedule never ticks, or if no operator runs.
	Next time.Time `json:"next,omitzero"`
	// Never is set if the crontab selects no time.
	Never bool `json:"never,omitempty"`
}

// attachedSchedules returns the schedule bindings that are attached, by hook. Live is set if an operator runs, which ticks.
func attachedSchedules(tx *store.Tx, live bool) (map[graph.Subject][]ScheduleLine, error) {
	out := map[graph.Subject][]ScheduleLine{}
	for k := range tx.Range(store.At(store.Bindings)) {
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
		of := graph.Subject{Module: subject.Module, Hook: subject.Hook}
		out[of] = append(out[of], line)
	}
	return out, nil
}

// scheduleLine returns the line of a binding. Its next tick is the first after the last one that is not over.
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
		line.Next = tickAfter(c.Crontab, now)
	}
	return line, nil
}

// tickAfter returns the first time after t that a crontab selects, zero if it selects none. An invalid crontab, which another
// version of the operator may have stored, selects none.
func tickAfter(crontab string, t time.Time) time.Time {
	schedule, err := hook.ParseCrontab(crontab)
	if err != nil {
		return time.Time{}
	}
	return schedule.Next(t)
}

// nextTick returns the next tick of a hook for people.
func (h *HookLine) nextTick(look inspect.Look) string {
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
		return look.Clock(next) + ", one never"
	case !next.IsZero():
		return look.Clock(next)
	case never:
		return "never"
	default:
		return "-"
	}
}
