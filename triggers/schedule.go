package triggers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Missed is the policy for schedule ticks that were due while no operator ran.
type Missed string

// Policies for missed ticks.
const (
	Skip Missed = "skip" // missed ticks are ignored
	Once Missed = "once" // one tick replaces all missed ticks of a binding
)

// A Schedule raises an event for each tick of each attached schedule binding. If several ticks of a binding become due
// before the Schedule reads the clock, for example while the machine sleeps, it raises one event for them. The
// transaction that raises a tick also stores it as the last tick of the binding.
type Schedule struct {
	DB     *store.DB
	Engine workflow.Raiser
	Missed Missed
	Log    zerolog.Logger

	bound   bindingReader
	changed <-chan struct{} // receives a value when bindings may have changed
}

// NewSchedule returns a Schedule. The Schedule raises ticks once Run is called.
func NewSchedule(db *store.DB, engine workflow.Raiser, missed Missed, log zerolog.Logger) *Schedule {
	return &Schedule{DB: db, Engine: engine, Missed: missed, Log: log, changed: store.Changes(db, store.At(store.Bindings))}
}

// A ticker is one attached binding with its crontab.
type ticker struct {
	config   string // configuration of the binding
	crontab  string
	schedule cron.Schedule
	from     time.Time // the time at which the field next was computed
	next     time.Time // zero means never
}

// setBack is the minimum step backwards of the clock that makes a Schedule compute the next ticks
// again. Smaller steps are ignored, because otherwise a tick could be delivered twice.
const setBack = time.Minute

// longestSleep is the maximum time that a Schedule sleeps before it reads the clock again. A timer
// counts elapsed time, but a person can set the clock, and the clock jumps when a machine wakes
// from sleep.
const longestSleep = time.Minute

// damagePause is the time after which a Schedule raises due ticks again if the engine has to repair a record first.
const damagePause = 5 * time.Second

// rewind computes the next tick again if the clock was set back by at least setBack. now is the time that the clock
// shows.
func (t *ticker) rewind(now time.Time) {
	if t.schedule != nil && t.from.Sub(now) >= setBack {
		t.from, t.next = now, t.schedule.Next(now)
	}
}

// Run raises the events of ticks until ctx is done. If the engine has to repair a record before it can raise due ticks,
// Run tries again after damagePause.
func (s *Schedule) Run(ctx context.Context) error {
	tickers := map[graph.Subject]*ticker{}
	if err := s.follow(tickers); err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for pause := time.Duration(0); ; {
		now := s.DB.Now()
		for _, t := range tickers {
			t.rewind(now)
		}
		alarm.Stop()
		if next, ok := earliest(tickers); ok {
			alarm.Reset(max(pause, min(next.Sub(now), longestSleep)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			if err := s.follow(tickers); err != nil {
				return fmt.Errorf("read schedules: %w", err)
			}
		case <-alarm.C:
			if next, ok := earliest(tickers); !ok || next.After(s.DB.Now()) {
				continue // the alarm only served to read the clock again
			}
			var err error
			if pause, err = s.raiseDue(ctx, tickers); err != nil && ctx.Err() == nil {
				return fmt.Errorf("raise ticks: %w", err)
			}
		}
	}
}

func earliest(tickers map[graph.Subject]*ticker) (next time.Time, ok bool) {
	for _, t := range tickers {
		if !t.next.IsZero() && (!ok || t.next.Before(next)) {
			next, ok = t.next, true
		}
	}
	return next, ok
}

// follow makes tickers match the attached schedule bindings. If the record of a binding is damaged, follow does nothing
// more: the trigger [Kube] moves the record, and this change leads to the next call of follow.
func (s *Schedule) follow(tickers map[graph.Subject]*ticker) error {
	err := s.DB.View(func(tx *store.Tx) error {
		attached := map[graph.Subject]bool{}
		for b, err := range s.bound.all(tx) {
			if err != nil {
				return err
			}
			if b.Kind != store.Schedule || b.Detached {
				continue
			}
			attached[b.subject] = true
			if t := tickers[b.subject]; t != nil && t.config == string(b.Config) {
				continue
			}
			if tickers[b.subject], err = s.begin(tx, b.subject, b.Binding); err != nil {
				return err
			}
		}
		for subject := range tickers {
			if !attached[subject] {
				delete(tickers, subject)
			}
		}
		return nil
	})
	if unreadable(err, store.Bindings) != nil {
		err = nil
	}
	return err
}

// begin returns the ticker of a binding. The last tick in the store can be of an earlier epoch. If ticks were missed
// since then and the policy is Once, one tick is due at once.
func (s *Schedule) begin(tx *store.Tx, subject graph.Subject, b store.Binding) (*ticker, error) {
	var c hook.ScheduleBinding
	if err := json.Unmarshal(b.Config, &c); err != nil {
		return nil, err
	}
	t := &ticker{config: string(b.Config), crontab: c.Crontab}
	schedule, err := hook.ParseCrontab(c.Crontab)
	if err != nil {
		s.Log.Error().Err(err).Str("hook", subject.String()).Msg("schedule does not tick")
		return t, nil
	}
	t.schedule = schedule
	now := tx.Now()
	t.from = now
	last, known, err := store.Load[time.Time](tx, store.TickKey(subject))
	if err != nil && unreadable(err, store.Ticks) == nil { // the next tick replaces a damaged record
		return nil, err
	}
	if !known || last.After(now) {
		last = now
	}
	t.next = schedule.Next(last)
	if !t.next.IsZero() && t.next.Before(now) {
		if t.next = schedule.Next(now); s.Missed == Once {
			t.next = now
		}
	}
	return t, nil
}

// raiseDue raises the due ticks. If the engine has to repair a record first, raiseDue raises none, and returns the time
// after which the caller must call it again.
func (s *Schedule) raiseDue(ctx context.Context, tickers map[graph.Subject]*ticker) (pause time.Duration, err error) {
	err = s.tick(ctx, tickers)
	if workflow.Repairable(err) { // the engine reports the record
		return damagePause, nil
	}
	return 0, err
}

// tick raises the due ticks. If the store has no space, tick waits.
func (s *Schedule) tick(ctx context.Context, tickers map[graph.Subject]*ticker) error {
	return s.DB.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		now := tx.Now()
		var due []graph.Subject
		for _, subject := range inOrder(tickers) {
			if t := tickers[subject]; !t.next.IsZero() && !t.next.After(now) {
				due = append(due, subject)
			}
		}
		if len(due) == 0 {
			return nil
		}
		var events []workflow.Event
		for _, subject := range due {
			ev, err := s.tickOf(tx, subject, tickers[subject])
			if err != nil {
				return err
			}
			if ev != nil {
				events = append(events, *ev)
			}
		}
		tx.OnCommit(func() {
			for _, subject := range due {
				t := tickers[subject]
				t.from, t.next = now, t.schedule.Next(now)
			}
		})
		return s.Engine.Raise(tx, events...)
	})
}

// tickOf stores the due tick of t, and returns its event; nil if the binding is not attached or its record is damaged.
func (s *Schedule) tickOf(tx *store.Tx, subject graph.Subject, t *ticker) (*workflow.Event, error) {
	b, ok, err := store.Load[store.Binding](tx, store.BindingKey(subject.Module, subject.Hook, subject.Binding))
	if unreadable(err, store.Bindings) != nil {
		err = nil
	}
	if err != nil || !ok || b.Detached {
		return nil, err
	}
	if err := store.Save(tx, store.TickKey(subject), t.next); err != nil {
		return nil, err
	}
	ev, err := tickEvent(subject, b, store.Cause{Detail: fmt.Sprintf("%s at %s", t.crontab, t.next.UTC().Format(time.RFC3339))})
	return &ev, err
}

// RequestedTick returns the event of a tick that a person requests, and stores the current time as the last tick of the
// binding. So a tick that was missed before is not raised any more. The result found reports whether subject is an
// attached schedule binding.
func RequestedTick(tx *store.Tx, subject graph.Subject) (ev workflow.Event, found bool, err error) {
	b, found, err := store.Load[store.Binding](tx, store.BindingKey(subject.Module, subject.Hook, subject.Binding))
	if err != nil || !found || b.Kind != store.Schedule || b.Detached {
		return ev, false, err
	}
	if err := store.Save(tx, store.TickKey(subject), tx.Now()); err != nil {
		return ev, false, err
	}
	ev, err = tickEvent(subject, b, store.Cause{Detail: "requested"})
	return ev, true, err
}

// inOrder returns the keys of m sorted by name. Ticks that are due at the same time are raised in
// this order.
func inOrder[T any](m map[graph.Subject]T) []graph.Subject {
	return slices.SortedFunc(maps.Keys(m), func(a, b graph.Subject) int {
		return cmp.Or(strings.Compare(a.Module, b.Module), strings.Compare(a.Hook, b.Hook), strings.Compare(a.Binding, b.Binding))
	})
}

func tickEvent(subject graph.Subject, b store.Binding, cause store.Cause) (workflow.Event, error) {
	var c hook.ScheduleBinding
	err := json.Unmarshal(b.Config, &c)
	ev := workflow.Event{
		On: lifecycle.OnModuleSchedule, Subject: subject, Queue: b.Queue, AllowFailure: c.AllowFailure, NoBatch: c.Legacy,
		Cause: cause,
	}
	if subject.Module == "" {
		ev.On = lifecycle.OnGlobalSchedule
	}
	return ev, err
}
