package helm

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Manifest is what a release renders to.
type Manifest struct {
	// Text is all objects as YAML, without Helm hooks and without the chart's crds/. It may hold secrets.
	Text string

	// Checksum is the MD5 of Text, in 32 hexadecimal digits; of lists without the labels of their items.
	Checksum string

	// Objects must be in the cluster as long as the release is deployed. Those that the cluster removes by itself
	// when they are done (ttlSecondsAfterFinished) are left out.
	Objects []Object

	source source
}

// source identifies what a manifest was rendered from.
type source struct {
	sum  [sha256.Size]byte       // of the chart's files, the values and the release
	caps *chartutil.Capabilities // of the cluster; read again, they are other ones
}

// Render returns what the chart makes of the values, and changes nothing. The text is that of an upgrade to revision
// 1, whatever revision is next, and the template function lookup finds nothing: so it is the same as long as chart,
// values and the kinds the cluster serves are. A CRD made a moment ago is known. It costs one request.
//
// An error names the release, and the template with the line where one is at fault.
func (c *Client) Render(ctx context.Context, r Release) (Manifest, error) {
	manifest, err := c.render(ctx, r)
	if err != nil {
		return Manifest{}, fmt.Errorf("render release %q: %w", r.Name, err)
	}
	return manifest, nil
}

// Reusable reports whether m is what Render returns for r: chart, values and the kinds the cluster serves are those that
// m was rendered from. It costs one request. Charts whose templates use the time or random numbers render to something
// else each time, so reuse a manifest only in the run of the module that rendered it.
func (c *Client) Reusable(ctx context.Context, r Release, m Manifest) (bool, error) {
	if m.source.caps == nil {
		return false, nil // of no rendering
	}
	caps, err := c.cluster.current(ctx)
	if err != nil || caps != m.source.caps {
		return false, err
	}
	return m.RenderedFrom(r)
}

// RenderedFrom reports whether m was rendered from the chart and the values of r as they are now. It makes no request.
func (m Manifest) RenderedFrom(r Release) (bool, error) {
	ch, values, err := r.prepare()
	if err != nil {
		return false, err
	}
	sum, err := r.sum(ch, values)
	return err == nil && sum == m.source.sum, err
}

// sum returns a checksum of all that a manifest is rendered from, except the cluster.
func (r Release) sum(ch *chart.Chart, values chartutil.Values) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	to := json.NewEncoder(h)
	if err := to.Encode([]any{r.Name, r.Maintained, len(ch.Raw), values}); err != nil {
		return sum, fmt.Errorf("values of release %q are not JSON: %w", r.Name, err)
	}
	for _, file := range ch.Raw {
		_, _ = fmt.Fprintf(h, "%q %d\n", file.Name, len(file.Data)) // a hash takes what it is given
		_, _ = h.Write(file.Data)
	}
	h.Sum(sum[:0])
	return sum, nil
}

func (c *Client) render(ctx context.Context, r Release) (Manifest, error) {
	caps, err := c.cluster.current(ctx)
	if err != nil {
		return Manifest{}, err
	}
	labels := newLabeller(c.labels, r)
	rendered, sum, err := c.dryRun(ctx, r, caps, labels)
	if meta.IsNoMatchError(err) {
		// Only a server that does not say when its kinds change comes here with a kind that is served.
		if err := c.Refresh(ctx); err != nil {
			return Manifest{}, err
		}
		if caps, err = c.cluster.known(ctx); err != nil {
			return Manifest{}, err
		}
		rendered, sum, err = c.dryRun(ctx, r, caps, labels)
	}
	if meta.IsNoMatchError(err) {
		return Manifest{}, c.cluster.unserved(ctx, labels.documents, err)
	}
	if err != nil {
		return Manifest{}, err
	}

	objects, err := c.lasting(ctx, labels.documents)
	if err != nil {
		return Manifest{}, err
	}
	// The checksum only tells texts apart; MD5 is what existing releases carry.
	checksum := md5.Sum([]byte(labels.sum))
	return Manifest{
		Text: rendered.Manifest, Checksum: hex.EncodeToString(checksum[:]), Objects: objects, source: source{sum: sum, caps: caps},
	}, nil
}

// dryRun renders by an install that stops before it does anything. It also returns the checksum of what it rendered from.
func (c *Client) dryRun(ctx context.Context, r Release, caps *chartutil.Capabilities, labels *labeller) (*release.Release, [sha256.Size]byte, error) {
	ch, values, err := r.prepare()
	if err != nil {
		return nil, [sha256.Size]byte{}, err
	}
	sum, err := r.sum(ch, values)
	if err != nil {
		return nil, sum, err
	}
	config := bound(ctx, c.config)
	install := action.NewInstall(c.configuration(config, offline{c.objects(ctx, config, r.Name)}, caps))
	install.DryRun = true
	install.IsUpgrade = true
	install.ReleaseName = r.Name
	install.Namespace = c.namespace
	install.SkipCRDs = true
	install.DisableOpenAPIValidation = true
	install.PostRenderer = labels
	rendered, err := install.RunWithContext(context.WithoutCancel(ctx), ch, values)
	return rendered, sum, err
}

// offline is Helm's client for an action that asks the cluster for nothing, and so need not ask whether it is there.
type offline struct{ kube.Interface }

// IsReachable implements kube.Interface.
func (offline) IsReachable() error { return nil }
