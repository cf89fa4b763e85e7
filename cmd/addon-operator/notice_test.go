package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestWhatIsSaidTwiceIsOneEventCountedUp(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	connection, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	o := &lifecycleObserver{
		log: zerolog.Nop(), notices: newNotices(connection, &settings.Settings{Namespace: namespace, ConfigMap: "addon-operator"}, zerolog.Nop()),
		metrics: metrics.New("p_", func() (metrics.State, error) { return metrics.State{}, nil }),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go o.notices.run(ctx)
	loop := store.Task{Node: "module-afterhelm", Subject: graph.Subject{Module: "web"}, Loop: &store.Loop{N: 3}}
	o.looped(loop)
	o.looped(loop)
	o.slow = new(debugapi.SlowRuns)
	o.HookSlow(report.SlowRun{Node: lifecycle.ModuleBeforeHelm, After: 10 * time.Minute, Task: workflow.Task{Task: loop}})
	o.DeletionBlocked([]string{"a", "b"}, "2 of 2 releases would be purged: a, b; run reload --allow-purge=2")
	k := client(t, c)
	want := map[string]struct {
		count int32
		says  string
	}{
		"ValuesLoop": {2, "values of module web change"}, "DeletionBlocked": {1, "a, b; run reload --allow-purge=2"},
		"HookSlow": {1, "module-beforehelm web has been running for 10m0s; no run of its current code has succeeded yet"},
	}
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		events, err := k.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for _, e := range events.Items {
			if w := want[e.Reason]; e.Count == w.count && strings.Contains(e.Message, w.says) && e.InvolvedObject.Kind == "ConfigMap" {
				right++
			}
		}
		if right == len(want) && len(events.Items) == right {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("events: %v", events.Items)
		}
	}
}
