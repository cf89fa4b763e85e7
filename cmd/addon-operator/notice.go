package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A notice is something people should see with kubectl: a Kubernetes Event on
// the operator's ConfigMap.
type notice struct{ reason, message string }

// maxMessage is the longest message in bytes that an Event can have.
const maxMessage = 1024

// tell has n posted. It does not block: with the API server away notices are
// lost, what they say is in the log as well.
func (o *operator) tell(n notice) {
	select {
	case o.notices <- n:
	default:
		o.log.Warn().Str("reason", n.reason).Msg("too many notices wait for the API server; this one makes no Kubernetes Event")
	}
}

// post makes Events of notices until ctx is done.
func (o *operator) post(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-o.notices:
			if err := o.postOne(ctx, n); err != nil && ctx.Err() == nil {
				o.log.Warn().Err(err).Str("reason", n.reason).Msg("no Kubernetes Event could be made")
			}
		}
	}
}

// postOne makes an Event, or counts one up that says the same.
func (o *operator) postOne(ctx context.Context, n notice) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if len(n.message) > maxMessage {
		n.message = n.message[:maxMessage-3] + "..."
	}
	sum := sha256.Sum256([]byte(n.reason + n.message))
	name := o.settings.ConfigMap + "." + hex.EncodeToString(sum[:8])
	events := o.client.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(o.settings.Namespace)
	now := time.Now().UTC().Format(time.RFC3339)
	about := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": o.settings.Namespace, "name": o.settings.ConfigMap}
	if found, err := o.client.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).
		Namespace(o.settings.Namespace).Get(ctx, o.settings.ConfigMap, metav1.GetOptions{}); err == nil {
		about["uid"], about["resourceVersion"] = string(found.GetUID()), found.GetResourceVersion()
	}
	_, err := events.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name},
		"involvedObject": about, "type": corev1.EventTypeWarning, "reason": n.reason, "message": n.message,
		"source": map[string]any{"component": "addon-operator"}, "firstTimestamp": now, "lastTimestamp": now, "count": int64(1),
	}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	known, err := events.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	count, _, _ := unstructured.NestedInt64(known.Object, "count")
	known.Object["count"], known.Object["lastTimestamp"] = count+1, now
	_, err = events.Update(ctx, known, metav1.UpdateOptions{})
	return err
}
