package webhook

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"addon-operator/internal/kube"
)

// ClusterSecret is a [Secret] that stores its data in a Kubernetes Secret.
type ClusterSecret struct {
	Client          *kube.Client
	Namespace, Name string
}

func (s ClusterSecret) secrets() dynamic.ResourceInterface {
	return s.Client.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(s.Namespace)
}

func (s ClusterSecret) live(ctx context.Context) (*corev1.Secret, error) {
	o, err := s.secrets().Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	secret := &corev1.Secret{}
	return secret, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, secret)
}

// Read returns the data of the Secret, or nil if the Secret does not exist.
func (s ClusterSecret) Read(ctx context.Context) (map[string][]byte, error) {
	secret, err := s.live(ctx)
	if err != nil || secret == nil {
		return nil, err
	}
	return secret.Data, nil
}

// Write creates or updates the Secret. Write replaces the data and sets the labels of the operator.
// It does not change other labels or annotations.
func (s ClusterSecret) Write(ctx context.Context, data map[string][]byte) error {
	secret, err := s.live(ctx)
	if err != nil {
		return err
	}
	create := secret == nil
	if create {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Type: corev1.SecretTypeOpaque}
	}
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	secret.Data = maps.Clone(data)
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[ownerLabel], secret.Labels["app.kubernetes.io/managed-by"] = s.Namespace, fieldManager
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: content}
	if create {
		_, err = s.secrets().Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = s.secrets().Update(ctx, o, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
