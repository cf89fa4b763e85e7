package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Uninstall deletes the objects and all revisions of a release. It keeps objects with the annotation
// helm.sh/resource-policy: keep. It also keeps objects that now belong to another release, and returns them. It uses
// background deletion, so the dependents of an object may exist a little longer.
//
// Uninstall may be repeated: it returns no error if the release does not exist, and continues an interrupted uninstall.
// The end of ctx stops Uninstall at its beginning and while it waits for a Helm hook, but not while it deletes
// objects. If Uninstall stops at a post-delete hook, it returns an error although it has deleted the release.
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
		if err = c.manifests.followKinds(ctx, name); err == nil {
			kept, err = c.uninstall(ctx, name, history[0].revision)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("uninstall release %q: %w", name, err)
	}
	return kept, nil
}

// uninstall does the work of [Client.Uninstall] for a release that exists. revision is the number of its last
// revision, for tracing.
func (c *Client) uninstall(ctx context.Context, name string, revision int) (kept []Kept, err error) {
	ctx, acting := startAction(ctx, c.namespace, "uninstall", name)
	acting.Set("revision", revision)
	defer func() { acting.End(err) }()
	caps, err := c.cluster.current(ctx) // asks the API server, because no rendering has just read the kinds
	if err != nil {
		return nil, err
	}
	if err := c.manifests.gather(ctx, name); err != nil {
		return nil, err
	}
	objects := c.actions.objects(ctx, c.config, name)
	err = c.actions.uninstall(name, c.actions.configuration(c.config, objects, caps))
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, errors.Join(append([]error{err}, objects.failures...)...)
	}
	return objects.kept, c.records.removeRest(context.WithoutCancel(ctx), name)
}
