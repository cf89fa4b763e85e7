package steps

import (
	"context"
	"errors"
)

// Rendered returns what the chart of module makes of its values as they are
// now, and changes nothing. With loose, it returns what the templates made also
// where that is no manifest the cluster would take. A module without a chart is
// an error.
func (rs *Releases) Rendered(ctx context.Context, module string, loose bool) (string, error) {
	release, err := rs.release(module)
	if err != nil {
		return "", err
	}
	if release == nil {
		return "", errors.New("the module has no chart")
	}
	if loose {
		return rs.helm.Templates(ctx, *release)
	}
	manifest, err := rs.helm.Render(ctx, *release)
	return manifest.Text, err
}
