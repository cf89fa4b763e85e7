package kube

import (
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
