package charts

import (
	"sync"
	"time"

	"addon-operator/internal/helm"
)

// aheadTimeout is the timeout for the requests of a rendering in the background.
const aheadTimeout = 30 * time.Second

// renderings has the manifests that are rendered before the step that uses them begins, at most one for each module.
// The zero value is ready to use.
type renderings struct {
	mu    sync.Mutex
	ahead map[string]*rendering // by module; guarded by mu
}

// A rendering is a manifest that has been rendered, or that a goroutine is rendering.
type rendering struct {
	ended    chan struct{} // closed when the rendering has ended
	manifest helm.Manifest
	ok       bool
}

// put adds a rendering of module and returns it. The rendering has not ended yet, and replaces an earlier one of the
// module.
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

// remove removes the rendering of module and returns it. It returns nil if the module has none.
func (r *renderings) remove(module string) *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	ahead := r.ahead[module]
	delete(r.ahead, module)
	return ahead
}

// end stores the manifest, and marks the rendering as ended. Call it once.
func (r *rendering) end(m helm.Manifest) {
	r.manifest, r.ok = m, true
	close(r.ended)
}
