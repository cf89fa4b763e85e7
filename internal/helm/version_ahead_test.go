package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAVersionThatTheServerHasNotReachedIsRequestedOnlyOnce lists records after a restore of etcd from a backup.
func TestAVersionThatTheServerHasNotReachedIsRequestedOnlyOnce(t *testing.T) {
	t.Parallel()
	var requested []string
	list := func(options metav1.ListOptions) (*corev1.SecretList, error) {
		requested = append(requested, options.ResourceVersion)
		if options.ResourceVersion == "100" {
			err := apierrors.NewTimeoutError("Too large resource version", 1)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
			return nil, err
		}
		return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "50"}}, nil
	}
	v := &version{oldest: "100"}
	for range 2 {
		if _, err := listNotBefore(v, metav1.ListOptions{}, list); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"100", "", "50"}, requested); diff != "" {
		t.Errorf("requested versions (-want +got):\n%s", diff)
	}
	v.written(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "51"}}, nil)
	if v.oldest != "51" {
		t.Errorf("after a write, the minimum version is %q", v.oldest)
	}
}
