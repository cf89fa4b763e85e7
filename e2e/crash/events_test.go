package crash_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/operator"
)

// held is shell code that makes a hook sleep while the file $RECORD.held exists.
const held = `while [[ -e $RECORD.held ]]; do sleep 0.02; done`

// watching creates an environment with one global hook, which watches ConfigMaps, and starts the operator.
// synchronization says whether the hook runs on Synchronization.
func watching(t *testing.T, synchronization bool) (*environment, *operator.Process) {
	t.Helper()
	w := newEnvironment(t)
	config := watch("seen", "/watch")
	binding, ok := config["kubernetes"].([]any)[0].(map[string]any)
	if !ok {
		t.Fatal("the config of a watching hook has no binding")
	}
	binding["executeHookOnSynchronization"] = synchronization
	binding["jqFilter"] = ".data.version"
	delete(binding, "keepFullObjectsInMemory")
	w.lay(t, map[string]string{
		"global-hooks/watch.sh": script("watch", config, held),
		"modules/values.yaml":   "{}\n",
		"modules/one/.keep":     "",
	})
	p := w.start(t)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, p
}

// put writes the ConfigMap called name, with the given version in its data. If version is "1", put creates the
// ConfigMap. Otherwise put updates the ConfigMap.
func (w *environment) put(t *testing.T, name, version string) {
	t.Helper()
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"seen": "yes"}},
		Data:       map[string]string{"version": version},
	}
	if version == "1" {
		w.create(t, c)
		return
	}
	if _, err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *environment) remove(t *testing.T, name string) {
	t.Helper()
	if err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// events returns the events of completed runs of the hook, in order, as "Added name version". A run
// that was repeated for the same task is counted once.
func (w *environment) events(t *testing.T) []string {
	t.Helper()
	var events []string
	var ended []run
	for _, r := range w.runs(t) {
		if r.word != "end" || slices.ContainsFunc(ended, func(before run) bool { return same(before, r) }) {
			continue
		}
		ended = append(ended, r)
		for _, e := range r.elements {
			if e.Type == "Event" {
				events = append(events, fmt.Sprintf("%s %s %s", e.WatchEvent, e.Object.Metadata.Name, strings.Trim(string(e.FilterResult), `"`)))
			}
		}
	}
	return events
}

// until waits until the given function returns true. It fails the test after 90 seconds, or if p ends first.
func (w *environment) until(t *testing.T, p *operator.Process, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := p.Until(ctx, what, holds); err != nil {
		t.Fatalf("%v\ndelivered so far: %v", err, w.events(t))
	}
}

// attached waits until the operator delivers changes of objects to the hook, and returns the events delivered so far.
// To find out, it changes an object again and again until the hook receives an event. It cannot wait for the
// Synchronization instead, because the hook of the calling test has executeHookOnSynchronization: false.
func (w *environment) attached(t *testing.T, p *operator.Process) []string {
	t.Helper()
	for version := 1; len(w.events(t)) == 0; version++ {
		w.put(t, "sign", strconv.Itoa(version))
		time.Sleep(100 * time.Millisecond)
	}
	last := "Added last 1"
	w.put(t, "last", "1")
	w.until(t, p, "the delivery of the last sign", func() bool { return slices.Contains(w.events(t), last) })
	return w.events(t)
}

// TestEventsWhileHookSleepsOutliveKill creates and deletes 40 objects while the hook sleeps, and kills the operator.
// The next process must deliver all events: those that were in the store, and those that the killed process had not
// read from the watch.
func TestEventsWhileHookSleepsOutliveKill(t *testing.T) {
	t.Parallel()
	w, p := watching(t, true)
	w.until(t, p, "the Synchronization", func() bool { return len(w.runs(t)) == 2 })

	if err := os.WriteFile(w.record+".held", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.put(t, "first", "1")
	w.until(t, p, "the hook to fall asleep", func() bool { return len(w.runs(t)) == 3 })
	want := []string{"Added first 1"}
	for i := range 40 {
		name := fmt.Sprintf("c%02d", i)
		w.put(t, name, "1")
		w.remove(t, name)
		want = append(want, "Added "+name+" 1", "Deleted "+name+" 1")
	}
	p.Kill()
	if err := os.Remove(w.record + ".held"); err != nil {
		t.Fatal(err)
	}
	p = w.start(t)
	w.until(t, p, "81 events", func() bool { return len(w.events(t)) >= len(want) })
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // in this time, a wrong further event could be delivered
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, w.events(t)); diff != "" {
		t.Errorf("the events of the hook differ (-want +got):\n%s", diff)
	}
	for _, wrong := range repeated(w.runs(t), 1, func(string) string { return "/watch" }) {
		t.Error(wrong)
	}
}

// TestChangesWhileDownReachTheHook creates, changes and deletes objects while no operator runs. The next process must
// deliver each of these changes once.
func TestChangesWhileDownReachTheHook(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*operator.Process) error{
		"killed":  func(p *operator.Process) error { p.Kill(); return nil },
		"stopped": (*operator.Process).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := watching(t, false)
			before := append(w.attached(t, p), "Added changed 1", "Added kept 1", "Added recreated 1", "Added removed 1")
			for _, name := range []string{"changed", "kept", "recreated", "removed"} {
				w.put(t, name, "1")
			}
			w.until(t, p, "the delivery of the objects", func() bool { return len(w.events(t)) == len(before) })
			if diff := cmp.Diff(before, w.events(t)); diff != "" {
				t.Fatalf("events that the hook received before the changes (-want +got):\n%s", diff)
			}
			if err := end(p); err != nil {
				t.Fatal(err)
			}

			w.put(t, "new", "1")
			w.put(t, "changed", "2")
			w.remove(t, "removed")
			w.remove(t, "recreated")
			w.put(t, "recreated", "1")
			w.put(t, "passing", "1")
			w.remove(t, "passing")
			want := []string{
				"Added new 1", "Modified changed 2", "Deleted removed 1", "Deleted recreated 1", "Added recreated 1",
				"Added passing 1", "Deleted passing 1",
			}

			p = w.start(t)
			after := func() []string { return w.events(t)[len(before):] }
			w.until(t, p, "the delivery of the changes", func() bool { return len(after()) >= len(want) })
			if err := p.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, after()); diff != "" {
				t.Errorf("the events of the hook differ (-want +got):\n%s", diff)
			}
			for _, wrong := range repeated(w.runs(t), 1, func(string) string { return "/watch" }) {
				t.Error(wrong)
			}
		})
	}
}
