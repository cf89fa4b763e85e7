package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
)

// Templates returns the rendered templates of r as one text, even if they are not valid objects, so that a user can
// find the mistake in a chart. The text may contain secrets. An error of the chart or the values names the release, and
// an error in a template also names the file and the line.
func (c *Client) Templates(ctx context.Context, r Release) (string, error) {
	caps, err := c.cluster.current(ctx)
	if err != nil {
		return "", err
	}
	ch, values, err := r.prepare()
	if err != nil {
		return "", err
	}
	install := c.actions.rendering(ctx, c.config, r.Name, caps)
	install.ClientOnly = true
	install.KubeVersion, install.APIVersions = &caps.KubeVersion, caps.APIVersions
	rendered, err := install.RunWithContext(context.WithoutCancel(ctx), ch, values)
	if rendered != nil && rendered.Manifest != "" {
		return rendered.Manifest, nil
	}
	if err != nil {
		return "", fmt.Errorf("render release %q: %w", r.Name, err)
	}
	return "", nil
}

// Released returns the manifest of the last revision of a release, or "" if the release does not exist. The manifest
// may contain secrets. Released sends one request.
func (c *Client) Released(_ context.Context, name string) (string, error) {
	last, err := c.records.storage().Last(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read release %q: %w", name, err)
	}
	return last.Manifest, nil
}
