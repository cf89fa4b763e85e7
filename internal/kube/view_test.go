package kube

import (
	"context"
	"slices"
	"testing"
)

// TestChangeAffectsTheOwnersThatHaveNotSeenIt checks which owners get a change. An owner that is leaving must get it
// too, because the change may be that an object was deleted together with its namespace.
func TestChangeAffectsTheOwnersThatHaveNotSeenIt(t *testing.T) {
	t.Parallel()
	v := &view{owners: []*owner{
		{name: "waits"},
		{name: "watches", registered: true},
		{name: "joined later", registered: true, since: "20"},
		{name: "joined before", registered: true, since: "9"},
		{name: "leaves", registered: true, leaving: true},
	}}
	affected, others := v.affected("20")
	if !slices.Equal(affected, []string{"joined before", "leaves", "watches"}) || !slices.Equal(others, []string{"joined later"}) {
		t.Errorf("a change at version 20 affects %q, and not %q", affected, others)
	}
	if affected, others := v.affected("21"); len(affected) != 4 || len(others) > 0 {
		t.Errorf("a change at version 21 affects %q, and not %q", affected, others)
	}
}

// leftReceiver is a Receiver that records the owners in the calls of Left.
type leftReceiver struct {
	silent
	left []string
}

func (r *leftReceiver) Left(_ context.Context, _ View, owners []string) error {
	r.left = append(r.left, owners...)
	return nil
}

// TestAnOwnerWhoseNamespaceMatchesAgainHasNotLeft joins an owner again before the watch has removed the same owner.
func TestAnOwnerWhoseNamespaceMatchesAgainHasNotLeft(t *testing.T) {
	t.Parallel()
	receiver := &leftReceiver{}
	r := newReads(nil, receiver, Observer{})
	join := func(name string) place {
		return r.join(Source{Version: "v1", Resource: "pods", Namespace: "ns"}, nil, &owner{name: name})
	}
	join("leaves").leave(true)
	join("returns").leave(true)
	again := join("returns")
	if err := again.watch.unsubscribe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(receiver.left, []string{"leaves"}) {
		t.Errorf("Left was called for %q", receiver.left)
	}
	if !slices.Equal(again.view.owners, []*owner{again.owner}) {
		t.Errorf("the view has the owners %q", names(again.view.owners))
	}
}
