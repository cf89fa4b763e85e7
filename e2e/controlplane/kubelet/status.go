package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waits reports whether the status of pod must not be written: the pod is not Pending, is being deleted, or has
// scheduling gates. Tests use scheduling gates to keep a pod Pending.
func waits(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0
}

// status returns the status that the kubelet reports for pod. The parameter now is the start time of the pod. If the
// restart policy is Always, the pod is running and ready. Otherwise it has already succeeded.
func status(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.StartTime = &now

	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	completed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: now, FinishedAt: now,
	}}
	state, ready, reason := running, corev1.ConditionTrue, ""
	s.Phase = corev1.PodRunning
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		state, ready, reason = completed, corev1.ConditionFalse, "PodCompleted"
		s.Phase = corev1.PodSucceeded
	}

	s.Conditions = nil
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type: kind, Status: status, Reason: reason,
			ObservedGeneration: pod.Generation, LastTransitionTime: now,
		})
	}
	condition(corev1.PodScheduled, corev1.ConditionTrue, "")
	condition(corev1.PodInitialized, corev1.ConditionTrue, reason)
	condition(corev1.ContainersReady, ready, reason)
	condition(corev1.PodReady, ready, reason)

	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			s.InitContainerStatuses = append(s.InitContainerStatuses, container(c, state)) // a sidecar, which runs as long as the pod
			continue
		}
		done := container(c, completed)
		done.Ready = true // Kubernetes calls an init container ready when it has completed
		s.InitContainerStatuses = append(s.InitContainerStatuses, done)
	}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, container(c, state))
	}
	return s
}

func container(c corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
	started := state.Running != nil
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.Image,
		State: state, Ready: started, Started: &started,
	}
}
