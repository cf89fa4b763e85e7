package report

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
)

func TestHookIsReportedThatRunsFarLongerThanItEverDidOrThanTenMinutes(t *testing.T) {
	for _, c := range []struct {
		longest, after time.Duration
	}{
		{0, 10 * time.Minute},
		{20 * time.Millisecond, time.Minute},
		{30 * time.Second, 150 * time.Second},
		{4 * time.Minute, 10 * time.Minute},
		{time.Hour, 2 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var reported, ended atomic.Int32
			s := &Runs{Observer: slowHooks{report: func(r SlowRun) func() {
				if r.After != c.after || r.Longest != c.longest {
					t.Errorf("reported is %+v, want %+v", r, c)
				}
				reported.Add(1)
				return func() { ended.Add(1) }
			}}}
			task := workflow.Task{Task: store.Task{Claim: &store.Claim{Since: time.Now()}}}
			ends := s.WatchSlow(task, c.longest)
			time.Sleep(c.after - time.Second)
			if reported.Load() != 0 {
				t.Errorf("after %s it is reported already", c.after-time.Second)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if reported.Load() != 1 || ended.Load() != 0 {
				t.Errorf("it was reported %d times and ended %d times, want 1 and 0", reported.Load(), ended.Load())
			}
			ends()
			if ended.Load() != 1 {
				t.Error("its end was not reported")
			}
			s.WatchSlow(task, c.longest)()
			time.Sleep(c.after + time.Second)
			if reported.Load() != 1 {
				t.Error("a run that ended in time was reported")
			}
		})
	}
}

func TestWaitForAHelmHookIsReportedAfterAMinuteUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported, ended atomic.Int32
		observer := slowHooks{report: func(r SlowRun) func() {
			if r.Awaits != "Job shop/migrate" || r.Node != "release-upgrade" || r.Since.IsZero() {
				t.Errorf("reported is %+v", r)
			}
			reported.Add(1)
			return func() { ended.Add(1) }
		}}
		ends := Slow(observer, SlowRun{Node: "release-upgrade", Since: time.Now(), After: SlowLeast, Awaits: "Job shop/migrate"})
		time.Sleep(SlowLeast - time.Second)
		if reported.Load() != 0 {
			t.Error("it is reported too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if reported.Load() != 1 {
			t.Error("it is not reported")
		}
		if ends(); ended.Load() != 1 {
			t.Error("its end is not reported")
		}
	})
}

// slowHooks is an Observer that calls the function report for slow runs.
type slowHooks struct {
	report func(SlowRun) func()
}

func (s slowHooks) HookSlow(r SlowRun) (ended func()) { return s.report(r) }

func (s slowHooks) HookRan(Run) {}
