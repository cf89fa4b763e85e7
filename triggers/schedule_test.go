package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// attachSchedule saves a schedule binding with this crontab, and records the end of a converge. The argument detached
// says whether the binding is detached.
func attachSchedule(t *testing.T, db *store.DB, crontab string, detached bool) {
	t.Helper()
	config, err := json.Marshal(hook.ScheduleBinding{Name: "tick", Crontab: crontab, Queue: "q", AllowFailure: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		if err := store.Save(tx, store.StartupKey(), store.Startup{Converged: 1}); err != nil {
			return err
		}
		return store.Save(tx, store.BindingKey("m", "hooks/h", "tick"),
			store.Binding{Kind: store.Schedule, Config: config, Queue: "q", Detached: detached})
	}); err != nil {
		t.Fatal(err)
	}
}

// ticks runs a schedule for the given duration, and returns the times of its ticks, counted from
// the beginning. The function meanwhile is called during this time; it can be nil.
func ticks(t *testing.T, db *store.DB, missed Missed, while time.Duration, meanwhile func()) []time.Duration {
	t.Helper()
	begin := time.Now()
	var at []time.Duration
	s := NewSchedule(db, raiserFunc(func(_ *store.Tx, events ...workflow.Event) error {
		for range events {
			at = append(at, time.Since(begin))
		}
		return nil
	}), missed, zerolog.Nop())
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	if meanwhile != nil {
		go meanwhile()
	}
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return at
}

func seconds(n ...int) (out []time.Duration) {
	for _, s := range n {
		out = append(out, time.Duration(s)*time.Second)
	}
	return out
}

func TestAttachedSchedulesTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		attachSchedule(t, db, "*/10 * * * * *", false)
		if diff := cmp.Diff(seconds(10, 20, 30), ticks(t, db, Skip, 35*time.Second, nil)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBindingAttachedLaterTicksAndOneDetachedDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		got := ticks(t, db, Skip, 45*time.Second, func() {
			time.Sleep(12 * time.Second)
			attachSchedule(t, db, "*/10 * * * * *", false)
			time.Sleep(20 * time.Second)
			attachSchedule(t, db, "*/10 * * * * *", true)
		})
		if diff := cmp.Diff(seconds(20, 30), got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTicksBeforeTheFirstConvergeAreRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		attachSchedule(t, db, "@every 10s", false)
		if err := db.Update(func(tx *store.Tx) error { return store.Save(tx, store.StartupKey(), store.Startup{}) }); err != nil {
			t.Fatal(err)
		}
		got := ticks(t, db, Once, 35*time.Second, nil) // the schedule must not end at the time of a tick
		if diff := cmp.Diff(seconds(10, 20, 30), got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMissedTicksAreSkippedOrToldOnce(t *testing.T) {
	for _, c := range []struct {
		missed Missed
		want   []time.Duration
	}{
		{Skip, seconds(10)},
		{Once, seconds(0, 10)},
	} {
		t.Run(string(c.missed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := storetest.Memory(t)
				attachSchedule(t, db, "*/10 * * * * *", false)
				if got := ticks(t, db, c.missed, 11*time.Second, nil); len(got) != 1 {
					t.Fatalf("ticked at %v", got)
				}
				time.Sleep(59*time.Second - time.Nanosecond) // five ticks are missed while the schedule does not run; the sixth is due in a nanosecond
				synctest.Wait()
				time.Sleep(time.Nanosecond)
				if diff := cmp.Diff(c.want, ticks(t, db, c.missed, 11*time.Second, nil)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAScheduleReadsTheClockWithoutATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		updates := 0
		db, err := store.OpenMemory(&store.Memory{Entering: func() { updates++ }}, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		attachSchedule(t, db, "0 3 * * *", false)
		updates = 0
		if at := ticks(t, db, Skip, 26*time.Hour, nil); len(at) != 1 || updates != 1 {
			t.Errorf("ticked at %v, with %d transactions, want one", at, updates)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCrontabThatNeverFiresCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		attachSchedule(t, db, "0 5 31 2 *", false)
		if got := ticks(t, db, Skip, 400*24*time.Hour, nil); got != nil {
			t.Errorf("ticked at %v", got)
		}
	})
}

func TestSchedulesTickByAClockThatWasSetBack(t *testing.T) {
	for _, c := range []struct {
		back time.Duration
		want []time.Duration
	}{
		{time.Hour, seconds(60, 180, 240)},            // the trigger notices the change when the next tick would have been due
		{2 * time.Second, seconds(60, 122, 182, 242)}, // no tick is delivered twice
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time {
				if time.Since(begin) < 61*time.Second {
					return time.Now()
				}
				return time.Now().Add(-c.back)
			}})
			if err != nil {
				t.Fatal(err)
			}
			attachSchedule(t, db, "* * * * *", false)
			if diff := cmp.Diff(c.want, ticks(t, db, Skip, 4*time.Minute+10*time.Second, nil)); diff != "" {
				t.Errorf("set back by %s: %s", c.back, diff)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// jumping returns a store whose clock jumps forward by two hours after the given time, as it does
// when a machine wakes from sleep.
func jumping(t *testing.T, after time.Duration) *store.DB {
	t.Helper()
	begin := time.Now()
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time {
		if time.Since(begin) < after {
			return time.Now()
		}
		return time.Now().Add(2 * time.Hour)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestATickComesAtItsTimeByAClockThatHasJumpedForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := jumping(t, 10*time.Minute) // counted from midnight
		attachSchedule(t, db, "0 3 * * *", false)
		if diff := cmp.Diff([]time.Duration{time.Hour}, ticks(t, db, Skip, 4*time.Hour, nil)); diff != "" {
			t.Errorf("an hour after the start, when the clock shows 03:00: %s", diff)
		}
	})
}

// fullFor makes commits of m fail for the given duration, as on a full disk.
func fullFor(m *store.Memory, while time.Duration) {
	until := time.Now().Add(while)
	m.Before = func(int) error {
		if time.Now().Before(until) {
			return store.ErrFull
		}
		return nil
	}
}

func TestATickOnAFullDiskIsRaisedWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(store.Memory)
		db, err := store.OpenMemory(m, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		attachSchedule(t, db, "0 3 * * *", false)
		fullFor(m, 3*time.Hour+20*time.Second)
		var events int
		s := NewSchedule(db, raiserFunc(func(*store.Tx, ...workflow.Event) error {
			events++
			return nil
		}), Skip, zerolog.Nop())
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Errorf("the schedule ended: %v", err)
		}
		if err := db.View(func(tx *store.Tx) error {
			tick, _, err := store.Load[time.Time](tx, store.TickKey(graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}))
			if tick.Hour() != 3 {
				t.Errorf("the last tick is %s, raised %d times", tick, events)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestATickThatCannotBeRaisedIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		attachSchedule(t, db, "0 3 * * *", false)
		broken := errors.New("the event cannot be enqueued")
		s := NewSchedule(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { return broken }), Skip, zerolog.Nop())
		if err := s.Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("the schedule ended with %v", err)
		}
		if err := db.View(func(tx *store.Tx) error {
			tick, recorded, err := store.Load[time.Time](tx, store.TickKey(graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}))
			if recorded {
				t.Errorf("the tick at %s is recorded", tick)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTickCarriesItsBindingAndItsCause(t *testing.T) {
	ev, err := tickEvent(graph.Subject{Hook: "hooks/g", Binding: "tick"},
		store.Binding{Config: json.RawMessage(`{"name":"tick","crontab":"@hourly","queue":"q","allowFailure":true}`), Queue: "q"},
		store.Cause{Detail: "@hourly at 2026-01-02T03:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	if ev.On != "schedule of a global hook" || ev.Queue != "q" || !ev.AllowFailure || ev.Cause.Detail != "@hourly at 2026-01-02T03:00:00Z" {
		t.Errorf("got %+v", ev)
	}
}

func TestARequestedTickReplacesAMissedOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subject  graph.Subject
		detached bool
		found    bool
	}{
		"an attached schedule": {graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}, false, true},
		"a detached schedule":  {graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}, true, false},
		"no such binding":      {graph.Subject{Module: "m", Hook: "hooks/h", Binding: "other"}, false, false},
		"no schedule":          {graph.Subject{Module: "m", Hook: "h", Binding: "pods"}, false, false},
	} {
		db := storetest.Memory(t)
		attachSchedule(t, db, "0 3 * * *", c.detached)
		if err := db.Update(func(tx *store.Tx) error {
			if err := saveBinding(tx, "m", "pods", store.Kubernetes, hook.KubernetesBinding{Name: "pods", Kind: "Pod"}, 1); err != nil {
				return err
			}
			ev, found, err := RequestedTick(tx, c.subject)
			if found != c.found || found && (ev.On != lifecycle.OnModuleSchedule || ev.Subject != c.subject || ev.Queue != "q" || !ev.AllowFailure || ev.Cause.Detail != "requested") {
				t.Errorf("%s: found %t, event %+v", name, found, ev)
			}
			tick, noted, loadErr := store.Load[time.Time](tx, store.TickKey(c.subject))
			if noted != c.found || noted && !tick.Equal(tx.Now()) {
				t.Errorf("%s: the last tick is %s, recorded: %t", name, tick, noted)
			}
			return errors.Join(err, loadErr)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACrontabWithoutATimeZoneIsInTheTimeZoneOfTheProcess is not parallel, because it sets this time zone.
func TestACrontabWithoutATimeZoneIsInTheTimeZoneOfTheProcess(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("test", 3*60*60+30*60)
	for crontab, want := range map[string][]time.Duration{
		"30 4 * * *":                      {1 * time.Hour, 25 * time.Hour},
		"CRON_TZ=UTC 0 2 * * *":           {2 * time.Hour},
		"CRON_TZ=Europe/Berlin 0 4 * * *": {3 * time.Hour},
		"@daily":                          {20*time.Hour + 30*time.Minute},
		"@every 20h":                      {20 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := storetest.Memory(t)
			attachSchedule(t, db, crontab, false)
			if diff := cmp.Diff(want, ticks(t, db, Skip, 25*time.Hour+30*time.Minute, nil)); diff != "" {
				t.Errorf("%s ticks (-want +got):\n%s", crontab, diff)
			}
			if err := db.View(func(tx *store.Tx) error {
				last, _, err := store.Load[time.Time](tx, store.TickKey(graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}))
				if last.Location() != time.UTC {
					t.Errorf("the stored tick of %s is in the time zone %s", crontab, last.Location())
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
