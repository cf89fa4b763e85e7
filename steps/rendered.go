package steps

import (
	"context"

	"addon-operator/internal/helm"
)

// rendered renders a chart, and has that timed.
func (s *Site) rendered(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	if s.HelmBegins != nil {
		defer s.HelmBegins(r.Name, "template")()
	}
	return s.Helm.Render(ctx, r)
}
