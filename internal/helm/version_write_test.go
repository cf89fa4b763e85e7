package helm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAListDoesNotLowerTheMinimumVersionBelowAWriteThatEndedMeanwhile lists records while another module writes one.
func TestAListDoesNotLowerTheMinimumVersionBelowAWriteThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	deleted := &version{oldest: "40"}
	deleted.forget()
	for name, v := range map[string]*version{
		"the first list": {}, "after a delete": deleted, "after a restore of etcd": {oldest: "100"},
	} {
		list := func(options metav1.ListOptions) (*corev1.SecretList, error) {
			if options.ResourceVersion == "100" {
				err := apierrors.NewTimeoutError("Too large resource version", 1)
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
				return nil, err
			}
			for _, written := range []string{"49", "52", "51"} {
				v.written(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: written}}, nil)
			}
			return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "50"}}, nil
		}
		if _, err := listNotBefore(v, metav1.ListOptions{}, list); err != nil {
			t.Fatal(err)
		}
		if v.oldest != "52" {
			t.Errorf("%s: the minimum version is %q", name, v.oldest)
		}
	}
}
