package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var always = corev1.ContainerRestartPolicyAlways

func pod(restart corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec: corev1.PodSpec{
			RestartPolicy:  restart,
			InitContainers: []corev1.Container{{Name: "first"}, {Name: "sidecar", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
}

func TestPodIsReadyOrHasSucceeded(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for restart, want := range map[corev1.RestartPolicy]struct {
		phase corev1.PodPhase
		runs  bool
		ready corev1.ConditionStatus
	}{
		corev1.RestartPolicyAlways:    {corev1.PodRunning, true, corev1.ConditionTrue},
		corev1.RestartPolicyOnFailure: {corev1.PodSucceeded, false, corev1.ConditionFalse},
		corev1.RestartPolicyNever:     {corev1.PodSucceeded, false, corev1.ConditionFalse},
	} {
		t.Run(string(restart), func(t *testing.T) {
			given := pod(restart)
			got := status(given, now)

			if got.Phase != want.phase {
				t.Errorf("got phase %s, want %s", got.Phase, want.phase)
			}
			if got.QOSClass != corev1.PodQOSBurstable || got.ObservedGeneration != 3 || !got.StartTime.Equal(&now) {
				t.Errorf("got %+v, want the fields of the API server unchanged, the observed generation 3, and the current time as start", got)
			}
			conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
			for _, c := range got.Conditions {
				conditions[c.Type] = c.Status
			}
			for kind, want := range map[corev1.PodConditionType]corev1.ConditionStatus{
				corev1.PodScheduled: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue,
				corev1.ContainersReady: want.ready, corev1.PodReady: want.ready,
			} {
				if conditions[kind] != want {
					t.Errorf("got condition %s %q, want %s", kind, conditions[kind], want)
				}
			}

			main := got.ContainerStatuses[0]
			if main.Name != "main" || main.Image != "example.com/main:1" {
				t.Errorf("got a status of %s, %s, want that of the one container", main.Name, main.Image)
			}
			for _, c := range []corev1.ContainerStatus{main, got.InitContainerStatuses[1]} {
				if runs := c.State.Running != nil; runs != want.runs || c.Ready != want.runs || *c.Started != want.runs {
					t.Errorf("got %+v, want running, started and ready to be %t", c, want.runs)
				}
				if ended := c.State.Terminated != nil; ended == want.runs {
					t.Errorf("got %+v, want either running or terminated", c)
				}
			}
			if first := got.InitContainerStatuses[0]; first.State.Terminated == nil || !first.Ready {
				t.Errorf("got init container %+v, want it to have ended well", first)
			}
			if given.Status.Phase != corev1.PodPending || given.Status.Conditions != nil {
				t.Errorf("the pod given was changed: %+v", given.Status)
			}
		})
	}
}

func TestNothingIsSaidOfAPodThatWaits(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"new":     {func(*corev1.Pod) {}, false},
		"running": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, true},
		"deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, true},
		"gated":   {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}} }, true},
	} {
		p := pod(corev1.RestartPolicyAlways)
		test.change(p)
		if got := waits(p); got != test.want {
			t.Errorf("%s: waits = %t, want %t", name, got, test.want)
		}
	}
}
