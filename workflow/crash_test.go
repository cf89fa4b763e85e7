package workflow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/lifecycle"
)

var fiveModules = []string{"m1", "m2", "m3", "m4", "m5"}

// moments returns a script of kubernetes events, with one queue for each module.
func moments() (script []moment) {
	for i := range 8 {
		module := fiveModules[i%3]
		ev := in("q-"+module, on(lifecycle.OnModuleKubeEvent, module, "watch", fmt.Sprint("b", i%2)))
		ev.Payload = json.RawMessage(fmt.Sprintf("%q", fmt.Sprint("event ", i)))
		script = append(script, moment{at: time.Duration(i) * 1700 * time.Millisecond, event: ev})
	}
	// The last event comes long after the start, so that its module run never joins the module run
	// of the start.
	last := &script[len(script)-1]
	last.at, last.event.Payload = 5*time.Minute, json.RawMessage(`"change"`)
	return script
}

// configChange returns a change of the ConfigMap at the given time of the script.
func configChange(at time.Duration) moment {
	return moment{at: at, event: on(lifecycle.OnConfigMap), config: true}
}

func TestCrashAtEveryCommitOfAStartLosesNothingAndRepeatsOnlyWhatRan(t *testing.T) {
	t.Parallel()
	var want map[string]string
	var done map[string]int
	commits := 0
	synctest.Test(t, func(t *testing.T) {
		p := newSmallOperator(t, fiveModules, moments()...)
		if !p.run(0, false) {
			t.Fatal("the undisturbed run is not done")
		}
		want, done, commits = p.values(), p.done(), p.mem.Commits()
	})
	if commits < 80 {
		t.Fatalf("the undisturbed run makes only %d commits", commits)
	}
	sweep(t, commits, 3, func(t *testing.T, epochs ...epoch) bool {
		t.Helper()
		p := newSmallOperator(t, fiveModules, moments()...)
		crashed := p.live(epochs)
		if diff := cmp.Diff(want, p.values()); diff != "" {
			t.Errorf("values that the steps wrote (-undisturbed +crashed):\n%s", diff)
		}
		if diff := cmp.Diff(done, p.done()); diff != "" {
			t.Errorf("completed steps (-undisturbed +crashed):\n%s", diff)
		}
		return crashed
	})
}

func TestCrashAtEveryCommitOfACutAndADeleteComesToTheSameEnd(t *testing.T) {
	t.Parallel()
	script := func() []moment { return append(moments(), configChange(9*time.Second), configChange(30*time.Second)) }
	var want map[string]string
	commits := 0
	synctest.Test(t, func(t *testing.T) {
		p := newSmallOperator(t, fiveModules, script()...)
		if !p.run(0, false) {
			t.Fatal("the undisturbed run is not done")
		}
		want, commits = p.ends(), p.mem.Commits()
		if n := len(want); n != 19 {
			t.Fatalf("%d values at the end: %v", n, want)
		}
	})
	sweep(t, commits, 3, func(t *testing.T, epochs ...epoch) bool {
		t.Helper()
		p := newSmallOperator(t, fiveModules, script()...)
		crashed := p.live(epochs)
		if diff := cmp.Diff(want, p.ends()); diff != "" {
			t.Errorf("the end (-undisturbed +crashed):\n%s", diff)
		}
		return crashed
	})
}

func TestCrashWhileModulesRunSideBySideComesToTheSameEnd(t *testing.T) {
	t.Parallel()
	beside := func(t *testing.T) *smallOperator {
		t.Helper()
		p := newSmallOperator(t, fiveModules, append(moments(), configChange(9*time.Second), configChange(30*time.Second))...)
		p.width = 3
		return p
	}
	var want map[string]string
	commits := 0
	synctest.Test(t, func(t *testing.T) {
		p := beside(t)
		if !p.run(0, false) {
			t.Fatal("the undisturbed run is not done")
		}
		want, commits = p.ends(), p.mem.Commits()
	})
	sweep(t, commits, 3, func(t *testing.T, epochs ...epoch) bool {
		t.Helper()
		p := beside(t)
		crashed := p.live(epochs)
		if diff := cmp.Diff(want, p.ends()); diff != "" {
			t.Errorf("the end (-undisturbed +crashed):\n%s", diff)
		}
		return crashed
	})
}

func TestCrashAtEveryCommitWhileFailingModulesAreInRetryQueuesComesToTheSameEnd(t *testing.T) {
	t.Parallel()
	for _, newContainers := range []bool{false, true} {
		t.Run(fmt.Sprintf("new containers %t", newContainers), func(t *testing.T) {
			t.Parallel()
			continuing := func(t *testing.T) *smallOperator {
				t.Helper()
				p := newSmallOperator(t, fiveModules, append(moments(), configChange(9*time.Second), configChange(30*time.Second))...)
				p.fails, p.newContainers = 100*time.Second, newContainers
				return p
			}
			var want map[string]string
			commits := 0
			synctest.Test(t, func(t *testing.T) {
				p := continuing(t)
				if !p.run(0, false) {
					t.Fatal("the undisturbed run is not done")
				}
				want, commits = p.ends(), p.mem.Commits()
				if n := want["values/released before afterAll"]; n != "4" {
					t.Errorf("afterAll ran when %s modules had a release, want 4", n)
				}
			})
			sweep(t, commits, 5, func(t *testing.T, epochs ...epoch) bool {
				t.Helper()
				p := continuing(t)
				crashed := p.live(epochs)
				if diff := cmp.Diff(want, p.ends()); diff != "" {
					t.Errorf("the end (-undisturbed +crashed):\n%s", diff)
				}
				return crashed
			})
		})
	}
}

// An epoch is a process that crashes before the given commit or, if behind is set, after it. An
// epoch with commit 0 does not crash.
type epoch struct {
	commit int
	behind bool
}

// sweep runs the function story with a crash before a commit, and again with a crash after it. With
// the argument step 3, for example, sweep does this for the commits 1, 4, 7 and so on. For some of
// these crashes, sweep also runs the function with a second crash in the next process. In short mode,
// sweep tests only a third of these commits, and no second crashes. With CRASH_COMMITS=all, sweep
// tests every commit.
func sweep(t *testing.T, commits, step int, story func(t *testing.T, epochs ...epoch) (crashed bool)) {
	t.Helper()
	switch all := os.Getenv("CRASH_COMMITS") == "all"; {
	case all:
		step = 1
	case testing.Short():
		step *= 3
	}
	for n := 1; n <= commits; n += step {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %t", n, behind), func(t *testing.T) {
				t.Parallel()
				crashed := false
				synctest.Test(t, func(t *testing.T) { crashed = story(t, epoch{n, behind}) })
				if !crashed || testing.Short() || n%8 != 0 {
					return
				}
				for _, second := range []int{1, 3, 6} {
					t.Run(fmt.Sprintf("%d %t", second, !behind), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { story(t, epoch{n, behind}, epoch{second, !behind}) })
					})
				}
			})
		}
	}
}

// live runs the small operator through the given epochs. If each of these epochs crashes, one more
// epoch runs to the end. live reports whether each of these epochs has crashed.
func (p *smallOperator) live(epochs []epoch) (crashed bool) {
	p.t.Helper()
	crashed = true
	for _, l := range epochs {
		if p.run(l.commit, l.behind) {
			crashed = false
		}
	}
	if crashed && !p.run(0, false) {
		p.t.Error("the last epoch has not ended")
	}
	for _, wrong := range p.again() {
		p.t.Error(wrong)
	}
	return crashed
}

// ends returns the part of the final state that must not depend on crashes. In this part, each
// event is delivered once, the last module is off, and each other module has a release with the
// last config.
func (p *smallOperator) ends() map[string]string {
	ends := map[string]string{}
	for k, v := range p.values() {
		for _, prefix := range []string{"values/seen", "values/off", "values/started", "values/config", "values/released", "release"} {
			if len(k) >= len(prefix) && k[:len(prefix)] == prefix {
				ends[k] = v
			}
		}
	}
	return ends
}
