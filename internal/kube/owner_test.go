package kube_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
)

func TestScaleToZeroIsToldFromARolloutAndAMissingPodFromOneWithoutARelease(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "operator"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	one := int32(1)
	set, err := api.AppsV1().StatefulSets(namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the StatefulSet to have its pod", func() bool {
		_, err := api.CoreV1().Pods(namespace).Patch(t.Context(), "set-0", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/stay"]}}`), metav1.PatchOptions{})
		return err == nil
	})
	check := func(when, pod string, want bool) {
		t.Helper()
		if zero, err := client.ScaledToZero(t.Context(), namespace, pod); err != nil || zero != want {
			t.Errorf("%s: %t, %v", when, zero, err)
		}
	}
	check("while one replica is wanted, as in a rollout", "set-0", false)
	for pod, want := range map[string]bool{"set-0": true, "elsewhere": false} {
		if release, exists, err := client.ReleaseOf(t.Context(), namespace, pod, namespace); release != "" || exists != want || err != nil {
			t.Errorf("pod %s: release %q, exists: %t, %v", pod, release, exists, err)
		}
	}
	check("of a pod that does not exist", "elsewhere", false)
	if _, err := api.AppsV1().StatefulSets(namespace).Patch(t.Context(), set.Name, "application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	check("with no replica", "set-0", true)
	if err := api.AppsV1().StatefulSets(namespace).Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	check("with its StatefulSet deleted", "set-0", true)
	if _, err := api.CoreV1().Pods(namespace).Patch(t.Context(), "set-0", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
