package kube_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"addon-operator/internal/kube"
)

func TestErrorNamesTheKindThatIsNotServed(t *testing.T) {
	t.Parallel()
	undiscovered := errors.New("metrics.k8s.io/v1beta1: service unavailable")
	for _, c := range []struct {
		err  kube.NotServedError
		says []string
		not  string
	}{
		{kube.NotServedError{Kind: "Thing"}, []string{`kind "Thing": `, kube.ErrNotServed.Error()}, "API groups"},
		{kube.NotServedError{APIVersion: "example.com/v1", Kind: "Thing"}, []string{`kind "Thing" of example.com/v1: `, kube.ErrNotServed.Error()}, "API groups"},
		{kube.NotServedError{Kind: "Thing", Undiscovered: undiscovered}, []string{`kind "Thing": `, kube.ErrNotServed.Error(), undiscovered.Error()}, "example.com"},
	} {
		text := c.err.Error()
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not contain %q", text, part)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%q contains %q", text, c.not)
		}
		if !errors.Is(fmt.Errorf("watch: %w", &c.err), kube.ErrNotServed) {
			t.Errorf("%q is not ErrNotServed", text)
		}
	}
}
