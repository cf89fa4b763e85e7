package kube_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
)

func TestAnAPIServerThatGoesAndComesIsSurvived(t *testing.T) {
	dir := t.TempDir()
	c := cluster.Launch(t, dir)
	s, k := fixtureOf(t, c.Config(), c.Namespace(t)), newDurableReceiver()
	watches := s.begin(t, k)
	s.create(t, "one")
	m := watches.open(t, kube.Spec{Owner: "hook", Selection: s.configMaps()})
	s.create(t, "two")
	k.untilDelivered(t, "hook", "Added two")
	host := c.Config().Host
	c.Kill()

	late, err := watches.Open(kube.Spec{Owner: "late", Selection: s.configMaps()})
	if err != nil {
		t.Fatal(err)
	}
	c = cluster.Launch(t, dir)
	if c.Config().Host != host {
		t.Skipf("the API server came back as %s instead of %s", c.Config().Host, host)
	}
	s.delete(t, "one")
	// The new API server may not have the version at which the watch ended. Then the objects are listed again. A list
	// does not show the order of changes, so the test waits for the delivery of this deletion before the next change.
	k.untilDelivered(t, "hook", "Added two", "Deleted one")
	s.create(t, "three")
	k.untilDelivered(t, "hook", "Added two", "Deleted one", "Added three")
	if got := shown(m); !slices.Equal(got, []string{"three", "two"}) {
		t.Errorf("the snapshot shows %q", got)
	}
	wait(t, late)
	if got := shown(late); !slices.Equal(got, []string{"three", "two"}) {
		t.Errorf("a monitor that joined while the server was away has the snapshot %q", got)
	}
	watches.stop()
	if len(watches.logs.failed) == 0 {
		t.Error("the observer was not called when the server did not respond")
	}
}

// BenchmarkMemoryOf10000Objects measures how much memory an object in a snapshot needs.
func BenchmarkMemoryOf10000Objects(b *testing.B) {
	s := newFixture(b)
	const objects = 10_000
	names := make(chan int)
	done := make(chan error)
	for range 16 {
		go func() {
			var failed error
			for i := range names {
				cm := configMap(objectName(i), "payload", strings.Repeat("x", 1000), "i", fmt.Sprint(i))
				_, err := s.api.CoreV1().ConfigMaps(s.namespace).Create(b.Context(), cm, metav1.CreateOptions{})
				if err != nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	for i := range objects {
		names <- i
	}
	close(names)
	for range 16 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	for name, spec := range map[string]kube.Spec{
		"filter":    {Owner: "hook", Selection: s.configMaps(), Filter: filter(b, ".data.i")},
		"no-filter": {Owner: "hook", Selection: s.configMaps()},
		"full":      {Owner: "hook", Selection: s.configMaps(), KeepFull: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				watches := s.begin(b, newDurableReceiver())
				began := time.Now()
				m, err := watches.Open(spec)
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "list-ms")
				if len(m.Snapshot()) != objects {
					b.Fatalf("%d objects are shown", len(m.Snapshot()))
				}
				b.ReportMetric(float64(heap()-before)/objects, "B/object")
				watches.stop()
				runtime.KeepAlive(m)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
