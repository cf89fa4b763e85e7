package steps

import (
	"context"
	"sync"
	"time"

	"addon-operator/internal/helm"
)

// aheadTimeout bounds the requests of a rendering that no step waits for yet.
const aheadTimeout = 30 * time.Second

// renderings are manifests that were rendered before the step that uses them, at most one for each module. They have no
// text, which can be long and hold secrets. The zero value is ready.
type renderings struct {
	mu    sync.Mutex
	ahead map[string]*rendering // by module; guarded by mu
}

// A rendering is a manifest, or one that a goroutine renders.
type rendering struct {
	ended    chan struct{} // closed when the other fields are set
	manifest helm.Manifest
	ok       bool
}

// put makes a rendering for module that replaces an earlier one.
func (r *renderings) put(module string) *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ahead == nil {
		r.ahead = map[string]*rendering{}
	}
	ahead := &rendering{ended: make(chan struct{})}
	r.ahead[module] = ahead
	return ahead
}

// take removes the rendering of module and returns it; nil if there is none.
func (r *renderings) take(module string) *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	ahead := r.ahead[module]
	delete(r.ahead, module)
	return ahead
}

// end sets the manifest.
func (r *rendering) end(m helm.Manifest) {
	m.Text = ""
	r.manifest, r.ok = m, true
	close(r.ended)
}

// renderAhead renders the chart of module in the background, for the release check that follows the last hook of
// beforeHelm. If the hook changes the values or the chart, the check renders it again.
func (rs *Releases) renderAhead(ctx context.Context, module string) {
	ahead := rs.renderings.put(module)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadTimeout)
	go func() {
		defer cancel()
		defer func() {
			_ = recover() // a chart can make Helm panic; the check renders it again and reports the error
			if !ahead.ok {
				close(ahead.ended)
			}
		}()
		r, err := rs.release(module)
		if err != nil || r == nil {
			return
		}
		if m, err := rs.render(ctx, *r); err == nil {
			ahead.end(m)
		}
	}()
}

// keepRendering keeps the manifest of module for the next step of its run.
func (rs *Releases) keepRendering(module string, m helm.Manifest) { rs.renderings.put(module).end(m) }

// rendered returns the manifest of a release, without its text. It was rendered ahead, or is rendered now.
func (rs *Releases) rendered(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	return rs.renderedIf(ctx, r, func(m helm.Manifest) (bool, error) { return rs.helm.Reusable(ctx, r, m) })
}

// checked returns the manifest that the release check has just rendered, without its text. It does not ask the cluster
// again whether it serves the same kinds: Helm does not either.
func (rs *Releases) checked(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	return rs.renderedIf(ctx, r, func(m helm.Manifest) (bool, error) { return m.RenderedFrom(r) })
}

// renderedIf returns the manifest that was rendered ahead, if reusable returns true for it, or renders it now.
func (rs *Releases) renderedIf(ctx context.Context, r helm.Release, reusable func(helm.Manifest) (bool, error)) (helm.Manifest, error) {
	ahead := rs.renderings.take(r.Name)
	if ahead == nil {
		return rs.render(ctx, r)
	}
	select {
	case <-ctx.Done():
		return helm.Manifest{}, ctx.Err()
	case <-ahead.ended:
	}
	if ahead.ok {
		if same, err := reusable(ahead.manifest); err == nil && same {
			return ahead.manifest, nil
		}
	}
	return rs.render(ctx, r)
}

// render renders a chart and reports the time that takes.
func (rs *Releases) render(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	defer rs.observer.HelmBegins(r.Name, "template")()
	return rs.helm.Render(ctx, r)
}
