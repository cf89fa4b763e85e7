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

// Manifest is the rendered form of a release.
type Manifest struct {
	// Text contains all objects as YAML, without Helm hooks and without the chart's crds/. It may
	// contain secrets.
	Text string

	// Checksum is the MD5 of Text, without the labels of list items, as 32 hexadecimal digits.
	Checksum string

	// Objects are the objects that must exist as long as the release is deployed. Objects that the
	// cluster removes after they have finished (ttlSecondsAfterFinished) are excluded.
	Objects []Object

	source source
}

// source identifies the input from which a manifest was rendered.
type source struct {
	sum  [sha256.Size]byte       // checksum of the chart's files, the values, and the name of the release
	caps *chartutil.Capabilities // capabilities of the cluster; compared by pointer
}

// Render renders the chart with the values and changes nothing. In templates, .Release describes an
// upgrade to revision 1, whatever the next revision is, and the function lookup returns nothing. So
// the text is the same as long as the chart, the values and the served kinds are the same. Render
// knows the kind of a CRD that was just created. It sends one request.
//
// An error names the release and, for an error in a template, its file and line.
func (c *Client) Render(ctx context.Context, r Release) (Manifest, error) {
	ctx, rendering := startAction(ctx, c.namespace, "template", r.Name)
	manifest, err := c.render(ctx, r)
	rendering.End(err)
	if err != nil {
		return Manifest{}, fmt.Errorf("render release %q: %w", r.Name, err)
	}
	return manifest, nil
}

// Reusable reports whether m was rendered from the current chart and values of r, and from the
// kinds that the cluster serves now. It sends one request. If templates use the time or random
// numbers, the text differs each time. So reuse a manifest only in the module run that rendered it.
func (c *Client) Reusable(ctx context.Context, r Release, m Manifest) (bool, error) {
	if m.source.caps == nil {
		return false, nil // m was not returned by Render
	}
	caps, err := c.cluster.current(ctx)
	if err != nil || caps != m.source.caps {
		return false, err
	}
	return m.RenderedFrom(r)
}

// RenderedFrom reports whether m was rendered from the current chart and values of r. It sends no
// request.
func (m Manifest) RenderedFrom(r Release) (bool, error) {
	ch, values, err := r.prepare()
	if err != nil {
		return false, err
	}
	sum, err := r.sum(ch, values)
	return err == nil && sum == m.source.sum, err
}

// sum returns a checksum of the input from which a manifest is rendered, without the capabilities
// of the cluster.
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
		// A served kind can be unknown here only if the server sends no ETag for the list of its
		// kinds.
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
	// MD5 is sufficient to distinguish texts, and existing releases use it.
	checksum := md5.Sum([]byte(labels.sum))
	return Manifest{
		Text: rendered.Manifest, Checksum: hex.EncodeToString(checksum[:]), Objects: objects, source: source{sum: sum, caps: caps},
	}, nil
}

// dryRun renders the chart with a dry run of Helm's install action. It also returns the result of
// sum.
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

// offline is Helm's client for an action that must send no request to the cluster. It skips the
// reachability check.
type offline struct{ kube.Interface }

// IsReachable implements kube.Interface.
func (offline) IsReachable() error { return nil }
