package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Uninstall removes the release: its objects, except those with the annotation
// helm.sh/resource-policy: keep, and all its revisions. It deletes objects in the background, so
// their dependents may exist a little longer. It does not delete objects that belong to another
// release now, and returns them.
//
// Uninstall may be repeated: an absent release is not an error, and an interrupted uninstall is
// continued. The end of ctx stops Uninstall only in a wait for a Helm hook; then the release stays
// Uninstalling.
func (c *Client) Uninstall(ctx context.Context, name string) ([]Kept, error) {
	history, err := c.records.of(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("uninstall: %w", err)
	}
	if len(history) == 0 {
		return nil, nil
	}
	kept, err := c.uninstall(ctx, name, history[0].revision)
	if meta.IsNoMatchError(err) && ctx.Err() == nil {
		if err = c.manifests.forgetGone(ctx, name); err == nil {
			kept, err = c.uninstall(ctx, name, history[0].revision)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("uninstall release %q: %w", name, err)
	}
	return kept, nil
}

// uninstall removes a release whose last revision has this number.
func (c *Client) uninstall(ctx context.Context, name string, revision int) (kept []Kept, err error) {
	ctx, acting := startAction(ctx, c.namespace, "uninstall", name)
	acting.Set("revision", revision)
	defer func() { acting.End(err) }()
	caps, err := c.cluster.known(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.manifests.gather(name); err != nil {
		return nil, err
	}
	objects := c.objects(ctx, c.config, name)
	uninstall := action.NewUninstall(c.configuration(c.config, objects, caps))
	uninstall.DeletionPropagation = "background"
	uninstall.Timeout = c.timeout
	uninstall.DisableHooks = c.dry != nil
	if _, err = uninstall.Run(name); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, errors.Join(append([]error{err}, objects.failures...)...)
	}
	return objects.kept, c.records.removeRest(context.WithoutCancel(ctx), name)
}
