// Package kubelet simulates the kubelets of a cluster without nodes. It reports a pod as running if its restart policy
// is Always, and as succeeded otherwise. It starts no containers.
//
// The controllers of Deployments, StatefulSets and Jobs, and clients that wait for these objects, need only the status
// of the pods. There is no scheduler, so pods have no node. The API server deletes pods without a node at once.
package kubelet

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Run watches the pods of all namespaces, and writes the status of each pending pod without a node, until ctx ends.
func Run(ctx context.Context, client kubernetes.Interface) error {
	pods := cache.NewSharedInformer(
		cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
			fields.Set{"spec.nodeName": "", "status.phase": string(corev1.PodPending)}.AsSelector()),
		&corev1.Pod{}, 0)
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second))
	enqueue := func(pod any) {
		if key, err := cache.MetaNamespaceKeyFunc(pod); err == nil {
			queue.Add(key)
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, pod any) { enqueue(pod) },
	})
	if err != nil {
		return err
	}

	var watching sync.WaitGroup
	watching.Go(func() { pods.RunWithContext(ctx) })
	defer watching.Wait()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for {
		key, ended := queue.Get()
		if ended {
			return nil
		}
		if err := report(ctx, client, pods.GetStore(), key); err != nil && ctx.Err() == nil {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// report writes the status of the pod stored under key. It does nothing if the pod does not exist, or if waits returns
// true for it.
func report(ctx context.Context, client kubernetes.Interface, pods cache.Store, key string) error {
	stored, exists, err := pods.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod, ok := stored.(*corev1.Pod)
	if !ok {
		return errors.New("not a pod")
	}
	if waits(pod) {
		return nil
	}
	pod = pod.DeepCopy()
	pod.Status = status(pod, metav1.Now())
	_, err = client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{FieldManager: "kubelet"})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // after a deletion there is nothing to report; a change causes another event
	}
	return err
}
