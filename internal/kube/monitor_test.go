package kube

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAMonitorThatHasLeftItsSourcesIsNotCompleteBeforeTheNextLookup leaves all sources, as after the end of a version
// of the kind. The kind may be served in another version.
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
