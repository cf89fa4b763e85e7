package triggers

import (
	"sync"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// earlierViews are the views that were delivered to bindings in earlier processes. They are read from the
// marks of the cursors at the first call of earlierViews.of. After drop, there are no such views.
type earlierViews struct {
	db *store.DB

	mu    sync.Mutex
	read  bool                      // guarded by mu
	views map[ownership][]kube.View // guarded by mu
}

// An ownership is an element of [mark.Owners].
type ownership struct {
	binding    string
	attachedIn uint64
}

// of returns the views that were delivered to the binding s since it was attached in epoch
// attachedIn. The kinds in their sources are empty. After a read error, the method returns no
// views: the error ends the operator.
func (e *earlierViews) of(s graph.Subject, attachedIn uint64) []kube.View {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.read {
		e.read, e.views = true, viewsByOwner(e.db)
	}
	return e.views[ownership{s.String(), attachedIn}]
}

// drop releases the memory of e. After drop, no binding has earlier views.
func (e *earlierViews) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read, e.views = true, nil
}

// viewsByOwner returns the views of all cursors by their owners.
func viewsByOwner(db *store.DB) map[ownership][]kube.View {
	all, err := allCursors(db)
	if err != nil {
		return nil
	}
	views := map[ownership][]kube.View{}
	for _, c := range all {
		source, err := kube.ParseSource(c.mark.Source)
		if err != nil || len(c.mark.Owners) == 0 {
			continue // an unfinished cursor has no source
		}
		for binding, attachedIn := range c.mark.Owners {
			o := ownership{binding, attachedIn}
			views[o] = append(views[o], kube.View{Source: source, Filter: c.mark.Filter})
		}
	}
	return views
}
