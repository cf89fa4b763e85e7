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

// groups returns the lines of the list of groups, each without the columns about times.
func (w *runWriter) groups(limit int) []string {
	w.t.Helper()
	r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true}
	var groups []inspect.RunGroup
	if err := w.db.View(func(tx *store.Tx) (err error) {
		groups, err = r.RunGroups(tx, limit)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	text := inspect.GroupsText(groups, inspect.Layout{Width: inspect.Unlimited, Now: firstRun.Add(100 * time.Minute), ASCII: true})
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
	w.add(lifecycle.OnModuleKubeEvent, a) // before the start run, so it does not belong to the group after this run
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
