package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// A runWriter writes ended runs. Each run begins a minute after the previous one.
type runWriter struct {
	t    *testing.T
	db   *store.DB
	next uint64
}

var firstRun = time.Date(2030, 1, 1, 10, 0, 0, 0, time.UTC)

func (w *runWriter) add(trigger graph.Trigger, subject graph.Subject, states ...store.State) {
	w.t.Helper()
	w.next++
	began := firstRun.Add(time.Duration(w.next) * time.Minute)
	if err := w.db.Update(func(tx *store.Tx) error {
		for i, state := range states {
			if err := store.AddRecord(tx, store.Record{Run: w.next, Node: "n", Subject: subject, State: state, Try: i + 1}); err != nil {
				return err
			}
		}
		return store.Save(tx, store.RunKey(w.next), store.Run{
			ID: w.next, Graph: lifecycle.Graph.Name, Trigger: string(trigger), Subject: subject, Began: began, Ended: began.Add(time.Second),
		})
	}); err != nil {
		w.t.Fatal(err)
	}
}

// list returns the groups.
func (w *runWriter) list(limit int) (groups []inspect.RunGroup) {
	w.t.Helper()
	r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true}
	if err := w.db.View(func(tx *store.Tx) (err error) {
		groups, err = r.RunGroups(tx, limit)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return groups
}

// groups returns the lines of the list of groups, without the heading, and with single blanks.
func (w *runWriter) groups(limit int) []string {
	w.t.Helper()
	text := inspect.GroupsText(w.list(limit), inspect.Layout{Width: inspect.Unlimited, Now: firstRun.Add(100 * time.Minute), ASCII: true})
	lines := strings.Split(strings.TrimSpace(text), "\n")[1:]
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return lines
}

func TestManyRunsOfOneBindingAreOneLineOfTheList(t *testing.T) {
	t.Parallel()
	w := &runWriter{t: t, db: storetest.Memory(t)}
	a := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	b := graph.Subject{Module: "web", Hook: "b.sh", Binding: "pods"}
	w.add(lifecycle.OnModuleKubeEvent, a) // not in the group of the later runs, because the start run is between them
	w.add(lifecycle.OnStart, graph.Subject{})
	for i := range 5 {
		w.add(lifecycle.OnModuleKubeEvent, a, store.Failed, store.Done)
		if i < 2 {
			w.add(lifecycle.OnModuleKubeEvent, b, store.Done)
		}
	}
	want := []string{
		"9 + done 5 runs, 5 failed attempts, of web/a.sh pods from 3, 10:03:00Z to 10:09:00Z: kubernetes event for a module hook 1h31m",
		"6 + done kubernetes event for a module hook: web/b.sh pods 1h34m 1.0s",
		"4 + done kubernetes event for a module hook: web/b.sh pods 1h36m 1.0s",
		"2 + done operator start 1h38m 1.0s",
		"1 + done kubernetes event for a module hook: web/a.sh pods 1h39m 1.0s",
	}
	if diff := cmp.Diff(want, w.groups(20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], w.groups(2)); diff != "" {
		t.Errorf("of 2 lines (-want +got):\n%s", diff)
	}
}

func TestGroupThatGoesOnBehindTheRunsThatWereReadSaysSo(t *testing.T) {
	t.Parallel()
	w := &runWriter{t: t, db: storetest.Memory(t)}
	for range 2001 {
		w.add(lifecycle.OnModuleKubeEvent, graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"})
	}
	if lines := w.groups(20); len(lines) != 1 || !strings.Contains(lines[0], "at least 2000 runs of web/a.sh pods from 2,") {
		t.Errorf("the list is %q", lines)
	}
}

// save replaces the record of a run.
func (w *runWriter) save(id uint64, change func(*store.Run)) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		run, _, err := store.Load[store.Run](tx, store.RunKey(id))
		if err != nil {
			return err
		}
		change(&run)
		return store.Save(tx, store.RunKey(id), run)
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestARunThatNeedsAttentionHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	w := &runWriter{t: t, db: storetest.Memory(t)}
	for range 6 {
		w.add(lifecycle.OnModuleKubeEvent, graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}, store.Done)
	}
	w.save(3, func(r *store.Run) { r.Warning = "1 addon failed" })
	want := []string{
		"6 + done 5 runs of web/a.sh pods from 1, 10:01:00Z to 10:06:00Z: kubernetes event for a module hook 1h34m",
		"3 + done kubernetes event for a module hook: web/a.sh pods 1h37m 1.0s",
		"1 addon failed",
	}
	if diff := cmp.Diff(want, w.groups(20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFewRunsBesideThoseThatNeedAttentionAreNoGroup adds six runs that failed once. One to four of them have no
// warning. Only four such runs are a group.
func TestFewRunsBesideThoseThatNeedAttentionAreNoGroup(t *testing.T) {
	t.Parallel()
	for quiet := uint64(1); quiet <= 4; quiet++ {
		w := &runWriter{t: t, db: storetest.Memory(t)}
		for range 6 {
			w.add(lifecycle.OnModuleKubeEvent, graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}, store.Failed, store.Done)
		}
		for id := quiet + 1; id <= 6; id++ {
			w.save(id, func(r *store.Run) { r.Warning = "1 addon failed" })
		}
		of := map[int]int{} // number of groups with this number of failures
		for _, g := range w.list(20) {
			of[g.Failures]++
			if g.Count > 1 != (g.Failures > 0) {
				t.Errorf("a group of %d runs has %d failures", g.Count, g.Failures)
			}
		}
		want := map[int]int{0: 6}
		if quiet == 4 {
			want = map[int]int{0: 2, 4: 1}
		}
		if diff := cmp.Diff(want, of); diff != "" {
			t.Errorf("with %d runs that need no attention (-want +got):\n%s", quiet, diff)
		}
	}
}

func TestThreeRunsOfOneBindingAreNoGroup(t *testing.T) {
	t.Parallel()
	w := &runWriter{t: t, db: storetest.Memory(t)}
	for n := range 4 {
		w.add(lifecycle.OnModuleKubeEvent, graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"})
		if want := []int{1, 2, 3, 1}[n]; len(w.groups(20)) != want {
			t.Errorf("%d runs have %d lines, want %d", n+1, len(w.groups(20)), want)
		}
	}
}

func TestRunsOfAnotherTriggerOrGraphAreAnotherGroup(t *testing.T) {
	t.Parallel()
	w := &runWriter{t: t, db: storetest.Memory(t)}
	pods := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	for range 4 {
		w.add(lifecycle.OnModuleKubeEvent, pods)
		w.add(lifecycle.OnModuleSchedule, pods)
		w.add(lifecycle.OnModuleKubeEvent, graph.Subject{Module: "web", Hook: "a.sh", Binding: "nodes"})
	}
	want := []string{
		"12 + done 4 runs of web/a.sh nodes from 3, 10:03:00Z to 10:12:00Z: kubernetes event for a module hook 1h28m",
		"11 + done 4 runs of web/a.sh pods from 2, 10:02:00Z to 10:11:00Z: schedule of a module hook 1h29m",
		"10 + done 4 runs of web/a.sh pods from 1, 10:01:00Z to 10:10:00Z: kubernetes event for a module hook 1h30m",
	}
	if diff := cmp.Diff(want, w.groups(20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRunsWithoutABindingSeparateGroups(t *testing.T) {
	t.Parallel()
	w := &runWriter{t: t, db: storetest.Memory(t)}
	pods := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	for _, start := range []bool{false, true} {
		if start {
			w.add(lifecycle.OnRunRequest, graph.Subject{Module: "web"})
		}
		for range 4 {
			w.add(lifecycle.OnModuleKubeEvent, pods)
		}
	}
	want := []string{
		"9 + done 4 runs of web/a.sh pods from 6, 10:06:00Z to 10:09:00Z: kubernetes event for a module hook 1h31m",
		"5 + done module run requested: web 1h35m 1.0s",
		"4 + done 4 runs of web/a.sh pods from 1, 10:01:00Z to 10:04:00Z: kubernetes event for a module hook 1h36m",
	}
	if diff := cmp.Diff(want, w.groups(20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], w.groups(1)); diff != "" {
		t.Errorf("of one line (-want +got):\n%s", diff)
	}
}

func TestAGroupHasTheOpenTasksAndTheGravestStateOfItsRuns(t *testing.T) {
	t.Parallel()
	history := writeHistory(t)
	defer history.close()
	w := &runWriter{t: t, db: history.db}
	pods := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	for range 5 {
		w.add(lifecycle.OnModuleKubeEvent, pods)
	}
	if lines := w.groups(20); len(lines) != 1 || !strings.HasPrefix(lines[0], "5 + done 5 runs ") {
		t.Errorf("of ended runs, the list is %q", lines)
	}
	task := queuedEvent("q", 1, "a.sh")
	task.Run, task.Claim = 2, &store.Claim{Epoch: 1}
	history.update(func(tx *store.Tx) error { return store.SaveTask(tx, &task) })
	w.save(2, func(r *store.Run) { r.Open, r.Ended = 1, time.Time{} })
	w.save(4, func(r *store.Run) { r.Open, r.Ended = 2, time.Time{} })
	lines := w.groups(20)
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "5 * running 5 runs of web/a.sh pods from 1,") || !strings.HasSuffix(lines[0], " 3") {
		t.Errorf("with 3 open tasks, the list is %q", lines)
	}
}
