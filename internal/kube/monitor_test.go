package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAMonitorThatHasLeftItsSourcesIsNotCompleteBeforeTheNextLookup leaves all sources, as a monitor does when the
// version of its kind is no longer served. The kind may then be served in another version.
func TestAMonitorThatHasLeftItsSourcesIsNotCompleteBeforeTheNextLookup(t *testing.T) {
	t.Parallel()
	r := newReads(nil, silent{}, Observer{})
	source := Source{Group: "ex.io", Version: "v1alpha1", Resource: "foos", Kind: "Foo"}
	left := r.join(source, nil, &owner{name: "hook"})
	m := &Monitor{
		spec: Spec{Selection: Selection{Kind: "Foo"}}, moved: make(chan struct{}), settled: true, known: map[Source]bool{},
		places: map[Source]place{source: left},
		among:  r.join(Source{Version: "v1", Resource: "namespaces", Kind: namespaceKind}, nil, &owner{name: "hook"}),
	}
	if m.IsComplete() {
		t.Error("the snapshot is complete before the receiver has accepted it")
	}
	close(left.owner.ready)
	if err := m.Wait(t.Context()); err != nil {
		t.Fatalf("before, the snapshot is not complete: %v", err)
	}
	if !m.IsComplete() {
		t.Error("before, the snapshot is not complete")
	}
	if !m.leaveAll() {
		t.Error("the owner was not registered")
	}
	if m.IsComplete() {
		t.Error("the empty snapshot is complete")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("timeout"))
	err := m.Wait(ctx)
	if err == nil {
		t.Fatal("the empty snapshot is complete")
	}
	if diff := cmp.Diff(`objects of kind "Foo" are not known yet: timeout`, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// following returns a monitor that follows the pods in n namespaces.
func following(n int) *Monitor {
	r := newReads(nil, silent{}, Observer{})
	m := &Monitor{places: map[Source]place{}}
	for i := range n {
		source := Source{Version: "v1", Resource: "pods", Kind: "Pod", Namespace: fmt.Sprintf("ns-%04d", i)}
		m.places[source] = r.join(source, nil, &owner{name: "hook"})
	}
	return m
}

func TestAMonitorKnowsItsViews(t *testing.T) {
	t.Parallel()
	view := func(namespace, kind, filter string) View {
		return View{Source{Version: "v1", Resource: "pods", Kind: kind, Namespace: namespace}, filter}
	}
	m := following(3)
	left := view("left", "Pod", "")
	m.parting = map[Source]place{left.Source: {}}
	want := []View{view("ns-0000", "Pod", ""), view("ns-0001", "Pod", ""), view("ns-0002", "Pod", "")}
	if diff := cmp.Diff(want, m.Views()); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct {
		view          View
		follows, uses bool
	}{
		"view":              {view("ns-0001", "Pod", ""), true, true},
		"without a kind":    {view("ns-0001", "", ""), true, true},
		"parting":           {left, false, true},
		"parting, no kind":  {view("left", "", ""), false, true},
		"another namespace": {view("ns-0003", "Pod", ""), false, false},
		"another filter":    {view("ns-0001", "Pod", ".spec"), false, false},
		"another kind":      {view("ns-0001", "Other", ""), false, false},
	} {
		used, known := m.Uses(test.view)
		if follows := m.Follows(test.view); follows != test.follows || used != test.uses || !known {
			t.Errorf("%s: follows %t, uses %t, known %t", name, follows, used, known)
		}
	}
	if used, known := following(0).Uses(want[0]); used || known {
		t.Errorf("a monitor without views: uses %t, known %t", used, known)
	}
}

// TestTheViewsOfAMonitorOfManyNamespacesAreFoundQuickly is not parallel, because other tests would allocate memory.
func TestTheViewsOfAMonitorOfManyNamespacesAreFoundQuickly(t *testing.T) {
	const n = 1000
	m := following(n)
	view := m.Views()[n/2]
	view.Kind = ""
	if allocated := testing.AllocsPerRun(10, func() { m.Follows(view); m.Uses(view) }); allocated > 0 {
		t.Errorf("the search for one view allocates memory %.0f times", allocated)
	}
	if allocated := testing.AllocsPerRun(10, func() { m.Views() }); allocated > 20*n {
		t.Errorf("the list of %d views allocates memory %.0f times", n, allocated)
	}
}
