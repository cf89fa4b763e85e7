package steps

import (
	"context"
	"errors"
)

// ErrNoChart tells that a module has nothing for Helm.
var ErrNoChart = errors.New("the module has no chart")

// Rendered returns what the chart of module makes of its values as they are
// now, and changes nothing. With loose, it returns what the templates made also
// where that is no manifest the cluster would take. The error is [ErrNoChart]
// where there is nothing to render.
func (s *Site) Rendered(ctx context.Context, module string, loose bool) (string, error) {
	release, err := s.release(module)
	if err != nil {
		return "", err
	}
	if release == nil {
		return "", ErrNoChart
	}
	if loose {
		return s.Helm.Templates(ctx, *release)
	}
	manifest, err := s.Helm.Render(ctx, *release)
	return manifest.Text, err
}
