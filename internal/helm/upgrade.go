package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"addon-operator/internal/failpoint"
)

// Upgraded is the result of an upgrade.
type Upgraded struct {
	Revision int
	// Kept are objects that are not in the new revision, but were not deleted, because they meanwhile belong to
	// another release.
	Kept []Kept
}

// Upgrade installs or upgrades the release r, so that its objects match the chart. It creates objects that do not
// exist. If an object exists, it becomes part of the release, even if it belonged to another release. Then Upgrade
// deletes the objects of the release that are not in the chart. If the deletion of an object fails, the release is
// Failed. Upgrade does not wait until objects are ready.
//
// Upgrade also upgrades a release whose last action failed. If a process was killed during an
// install or an upgrade, Upgrade removes the revision of that action and uses its number again. If a
// process was killed during an uninstall, Upgrade first finishes the uninstall. Upgrade also deletes
// the objects that a failed or killed action has created, if they are not in the chart.
//
// The manifest m must be the result of [Client.Render] for r, but its text may be empty. Its checksum is stored with
// the revision. To save time, its objects are read from the cluster while Helm renders the chart again.
//
// When ctx ends, the upgrade stops within milliseconds, unless it is finishing an uninstall, see [Client.Uninstall]. If
// it has begun to apply objects, the release is Failed, and the next upgrade applies the missing changes. When Upgrade
// returns, none of its goroutines is running. If the process is killed while it applies objects, or the result cannot
// be stored, the release is Pending.
func (c *Client) Upgrade(ctx context.Context, r Release, m Manifest) (done Upgraded, err error) {
	if m.Checksum == "" {
		return Upgraded{}, fmt.Errorf("upgrade release %q: the manifest has no checksum: pass a manifest that Render returned", r.Name)
	}
	done, err = c.upgrade(ctx, r, m)
	if meta.IsNoMatchError(err) && ctx.Err() == nil {
		// The served kinds have changed during the upgrade, or the deployed revision has objects of a kind that is not
		// served any more.
		c.log("release %q: %s: read the kinds of the cluster again", r.Name, err)
		if err = c.manifests.followKinds(ctx, r.Name); err == nil {
			done, err = c.upgrade(ctx, r, m)
		}
	}
	if err == nil {
		return done, nil
	}
	if ctx.Err() != nil {
		return Upgraded{}, fmt.Errorf("upgrade of release %q was stopped: %w", r.Name, errors.Join(context.Cause(ctx), err))
	}
	return Upgraded{}, fmt.Errorf("upgrade release %q: %w", r.Name, withoutCount(c.explain(r.Name, err)))
}

// upgrade reads the revisions of the release, chooses the steps, and executes them.
func (c *Client) upgrade(ctx context.Context, r Release, m Manifest) (Upgraded, error) {
	known := &reads{fresh: c.readFresh}
	config := known.remembering(bound(ctx, c.config))
	defer known.ahead.Wait()
	if err := c.readAhead(ctx, config, known, m.Objects); err != nil {
		return Upgraded{}, err
	}
	history, err := c.records.of(ctx, r.Name)
	if err != nil {
		return Upgraded{}, err
	}
	caps, err := c.cluster.known(ctx)
	if err != nil {
		return Upgraded{}, err
	}
	ch, values, err := r.prepare()
	if err != nil {
		return Upgraded{}, err
	}

	p := planFor(history)
	if err := c.gatherUnfinished(ctx, r.Name, p); err != nil {
		return Upgraded{}, err
	}
	if p.uninstall {
		if err := c.removeKilled(ctx, p.remove); err != nil {
			return Upgraded{}, err
		}
		p.remove = nil
		if _, err := c.uninstall(ctx, r.Name, history[0].revision); err != nil {
			return Upgraded{}, err
		}
		known.ahead.Wait()
		known.clear() // the uninstall may have deleted cached objects
	}
	if err := ctx.Err(); err != nil {
		return Upgraded{}, err // the upgrade has not applied any object yet
	}

	verb, act := "upgrade", c.actions.upgrade
	if p.install {
		verb, act = "install", c.actions.install
	}
	ctx, acting := startAction(ctx, c.namespace, verb, r.Name)
	objects := c.actions.objects(ctx, config, r.Name)
	objects.reads, objects.unfinished = known, p.gather
	configuration := c.actions.configuration(config, objects, caps)
	revisions := c.records.historyOf(r.Name, p.install, p.remove, func(next *release.Release) error {
		return c.removeReplaced(ctx, config, p, next)
	})
	configuration.Releases.Driver = revisions
	a := applied{
		configuration: configuration,
		chart:         ch, values: values,
		labels: map[string]string{
			checksumLabel: m.Checksum, maintenanceLabel: strconv.FormatBool(r.Maintained), addonLabel: strconv.FormatBool(r.Addon),
		},
		post: newLabeller(c.labels, r),
	}
	failpoint.Reach("helm", "before")
	done, err := act(context.WithoutCancel(ctx), r.Name, a)
	err = revisions.finish(done, err)
	if done != nil { // done can be set even if err is not nil
		acting.Set("revision", done.Version)
	}
	acting.End(err)
	if err != nil {
		return Upgraded{}, err
	}
	failpoint.Reach("helm", "after")
	return Upgraded{Revision: done.Version, Kept: objects.kept}, nil
}

// removeReplaced removes the records in p.remove, which the revision next replaces. If the plan p is an install,
// removeReplaced first deletes the objects of these revisions that are not in next.
func (c *Client) removeReplaced(ctx context.Context, config *rest.Config, p plan, next *release.Release) error {
	if p.install {
		if err := c.deleteUnfinished(ctx, config, next.Name, next.Manifest); err != nil {
			return err
		}
	}
	return c.removeKilled(context.WithoutCancel(ctx), p.remove)
}

// removeKilled removes the records of revisions that killed processes have left.
func (c *Client) removeKilled(ctx context.Context, killed []record) error {
	for _, k := range killed {
		c.log("release %q: removing revision %d, which a killed process left in status %s", k.release, k.revision, k.status)
		if err := c.records.remove(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// explain adds the likely cause and a remedy to certain errors of Helm and the API server. It returns all other errors
// unchanged.
func (c *Client) explain(name string, err error) error {
	switch {
	case errors.Is(err, driver.ErrReleaseExists):
		return fmt.Errorf("%w: another program is upgrading it, or its newest revision cannot be decoded: in the latter case, delete the newest "+
			"%s sh.helm.release.v1.%s.v* in namespace %s", err, c.records.kind, name, c.namespace)
	case strings.HasPrefix(err.Error(), "no revision for release"):
		decoded, unreadable := c.manifests.revisions(name)
		decoded = slices.DeleteFunc(decoded, func(r *release.Release) bool { return r.Info.Status.IsPending() })
		if unreadable == nil && len(decoded) == 0 { // Helm did not see the revisions of killed processes
			unreadable = c.manifests.undecoded(name)
		}
		return errors.Join(unreadable, err)
	case isTooLong(err):
		return fmt.Errorf("%w: the record of a release contains its whole chart and may have at most 1 MiB: move unneeded files out of the directory of the chart, or exclude them with a .helmignore, which requires a Chart.yaml", err)
	default:
		return err
	}
}

// isTooLong reports whether err means that the record of a revision is larger than the API server accepts.
func isTooLong(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Too long: may not be more than") || strings.Contains(err.Error(), "Too long: must have at most"))
}

// withoutCount returns err without the text "1 error occurred:", which Helm writes before a single error.
func withoutCount(err error) error {
	text := err.Error()
	if short := strings.Replace(text, "1 error occurred:\n\t* ", "", 1); short != text {
		return &shortened{err, strings.TrimSpace(short)}
	}
	return err
}

// A shortened wraps an error, and replaces the text of the error.
type shortened struct {
	error
	text string
}

func (e *shortened) Error() string { return e.text }
func (e *shortened) Unwrap() error { return e.error }
