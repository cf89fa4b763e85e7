package kube_test

import (
	"fmt"
	"testing"
	"time"

	"addon-operator/internal/kube"
)

func TestAFilterThatDependsOnTimeIsAskedAgainEachPeriod(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.create(t, "one", "a", "1")
	s.create(t, "two", "a", "1")
	var k *durableReceiver
	var m *kube.Monitor
	for wait := time.Second; ; wait *= 2 {
		late := time.Now().Add(wait)
		spec := kube.Spec{
			Owner: "hook", Selection: s.configMaps(), Period: 50 * time.Millisecond,
			Filter: filter(t, fmt.Sprintf(`.metadata.name == "one" and now > %f`, float64(late.UnixMilli())/1000)),
		}
		k = newDurableReceiver()
		watches := s.begin(t, k)
		m = watches.open(t, spec)
		spec.Owner, spec.Period = "other", 0
		watches.open(t, spec)
		if time.Now().Before(late) {
			break
		}
		watches.stop() // try again with a new Watches, because on a slow machine the filter result may already be true in the first list
	}
	k.untilDelivered(t, "hook", "Modified one")
	k.untilDelivered(t, "other", "Modified one")
	if got := string(m.Snapshot()[0].FilterResult); got != "true" {
		t.Errorf("the snapshot shows %s", got)
	}
	lists := 0
	k.until(t, "more lists", func(k *durableReceiver) bool {
		if lists == 0 {
			lists = len(k.lists)
		}
		return len(k.lists) > lists+5
	})
	k.untilDelivered(t, "hook", "Modified one")
	if cause := k.lists[len(k.lists)-1].Cause; cause != kube.Periodic {
		t.Errorf("the last list was delivered because of %q", cause)
	}
}
