package helm

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Manifest is the result of rendering a release.
type Manifest struct {
	// Text contains all objects as YAML, without Helm hooks and without the chart's crds/. It may
	// contain secrets.
	Text string

	// Checksum is an MD5 checksum, as 32 hexadecimal digits, over Text without the labels on items of lists.
	Checksum string

	// Objects are the objects that must exist as long as the release is deployed. Objects with the field
	// spec.ttlSecondsAfterFinished are left out, such as Jobs that Kubernetes deletes after they have finished.
	Objects []Object

	source source
}

// source identifies the inputs from which a manifest was rendered.
type source struct {
	sum  [sha256.Size]byte       // result of [Release.sum]
	caps *chartutil.Capabilities // capabilities of the cluster; equal only if the pointers are equal
}

// Render renders the chart of r with its values. It changes nothing in the cluster. In templates, .Release describes an
// upgrade to revision 1, whatever the next revision is, and the function lookup returns nothing. So the result depends
// only on r, the files of its chart and the served kinds, unless templates use the time or random numbers. Render finds
// kinds whose CRD was just created. It usually sends one request.
//
// The error names the release. If it is an error in a template, it also names the file and the line.
func (c *Client) Render(ctx context.Context, r Release) (Manifest, error) {
	ctx, rendering := startAction(ctx, c.namespace, "template", r.Name)
	manifest, err := c.render(ctx, r)
	rendering.End(err)
	if err != nil {
		return Manifest{}, fmt.Errorf("render release %q: %w", r.Name, err)
	}
	return manifest, nil
}

// Reusable reports whether m was rendered from the current chart and values of r, and with the kinds that the API
// server serves now. It usually sends one request. A manifest must only be reused in the module run that has rendered
// it: if templates use the time or random numbers, another run must render them again.
func (c *Client) Reusable(ctx context.Context, r Release, m Manifest) (bool, error) {
	if m.source.caps == nil {
		return false, nil // m is not a result of Render
	}
	caps, err := c.cluster.current(ctx)
	if err != nil || caps != m.source.caps {
		return false, err
	}
	return m.RenderedFrom(r)
}

// RenderedFrom reports whether m was rendered from the current chart and values of r. It reads the chart from disk,
// and sends no request.
func (m Manifest) RenderedFrom(r Release) (bool, error) {
	ch, values, err := r.prepare()
	if err != nil {
		return false, err
	}
	sum, err := r.sum(ch, values)
	return err == nil && sum == m.source.sum, err
}

// sum returns a checksum over the name and the settings of the release, the files of the chart, and the values. A
// manifest is rendered from these inputs and the capabilities of the cluster.
func (r Release) sum(ch *chart.Chart, values chartutil.Values) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	to := json.NewEncoder(h)
	if err := to.Encode([]any{r.Name, r.Maintained, len(ch.Raw), values}); err != nil {
		return sum, fmt.Errorf("values of release %q are not JSON: %w", r.Name, err)
	}
	for _, file := range ch.Raw {
		_, _ = fmt.Fprintf(h, "%q %d\n", file.Name, len(file.Data)) // a hash never fails
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
		// If the API server sends no ETag in discovery, the cached kinds may be out of date.
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
	// MD5 suffices to detect changes, and the checksums of existing releases are MD5.
	checksum := md5.Sum([]byte(labels.sum))
	return Manifest{
		Text: rendered.Manifest, Checksum: hex.EncodeToString(checksum[:]), Objects: objects, source: source{sum: sum, caps: caps},
	}, nil
}

// dryRun renders the chart of r with a dry run of Helm's install action. It also returns the result of [Release.sum].
func (c *Client) dryRun(ctx context.Context, r Release, caps *chartutil.Capabilities, labels *labeller) (*release.Release, [sha256.Size]byte, error) {
	ch, values, err := r.prepare()
	if err != nil {
		return nil, [sha256.Size]byte{}, err
	}
	sum, err := r.sum(ch, values)
	if err != nil {
		return nil, sum, err
	}
	install := c.actions.rendering(ctx, c.config, r.Name, caps)
	install.PostRenderer = labels
	rendered, err := install.RunWithContext(context.WithoutCancel(ctx), ch, values)
	return rendered, sum, err
}

// offline is Helm's client for an action that only renders a chart. It skips Helm's check whether the cluster is
// reachable, which would be a request.
type offline struct{ kube.Interface }

// IsReachable implements kube.Interface.
func (offline) IsReachable() error { return nil }
