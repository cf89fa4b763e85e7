package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/kube"
)

// A notice is a message for users of kubectl: the text of a Kubernetes Event on the operator's
// ConfigMap.
type notice struct{ reason, message string }

// maxMessage is the maximum size of the message of an Event in bytes.
const maxMessage = 1024

// notices creates Kubernetes Events in the background. Equal notices share one Event, which counts them.
type notices struct {
	queue     chan notice
	client    *kube.Client
	namespace string
	configMap string
	log       zerolog.Logger
}

// newNotices returns notices whose Events are about the ConfigMap that s names.
func newNotices(client *kube.Client, s *settings.Settings, log zerolog.Logger) *notices {
	return &notices{queue: make(chan notice, 64), client: client, namespace: s.Namespace, configMap: s.ConfigMap, log: log}
}

// add queues an Event for n. add does not block: if the queue is full because the API server does
// not respond, the notice is dropped. The operator also logs each problem for which it adds a
// notice.
func (q *notices) add(n notice) {
	select {
	case q.queue <- n:
	default:
		q.log.Warn().Str("reason", n.reason).Msg("too many notices wait for the API server; no Kubernetes Event is created for this notice")
	}
}

// run creates the Events until ctx ends.
func (q *notices) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-q.queue:
			if err := q.post(ctx, n); err != nil && ctx.Err() == nil {
				q.log.Warn().Err(err).Str("reason", n.reason).Msg("cannot create a Kubernetes Event")
			}
		}
	}
}

// eventMessage returns text, cut between two characters to at most maxMessage bytes.
func eventMessage(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	const dots = "..."
	return strings.ToValidUTF8(text[:maxMessage-len(dots)], "") + dots
}

// post creates an Event for n, or increments the count of an equal Event.
func (q *notices) post(ctx context.Context, n notice) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n.message = eventMessage(n.message)
	sum := sha256.Sum256([]byte(n.reason + n.message))
	name := q.configMap + "." + hex.EncodeToString(sum[:8])
	events := q.client.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(q.namespace)
	now := time.Now().UTC().Format(time.RFC3339)
	about := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": q.namespace, "name": q.configMap}
	if found, err := q.client.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).
		Namespace(q.namespace).Get(ctx, q.configMap, metav1.GetOptions{}); err == nil {
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
