package traces

import (
	"strings"
	"sync"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/internal/tracing"
	"addon-operator/store"
)

// mostWritten is the maximum number of versions that are remembered.
const mostWritten = 4096

// A writtenVersion identifies a version of an object. It needs no kind, because the API server counts
// the versions of all kinds together.
type writtenVersion struct{ object, resourceVersion string }

// writtenVersions records which span wrote which version of an object. If such a version causes a run,
// the run is linked to the span.
type writtenVersions struct {
	mu    sync.Mutex
	spans map[writtenVersion]tracing.Ref // this field and those below are guarded by mu
	order []writtenVersion               // a ring, the oldest at next
	next  int
}

func newWrittenVersions() *writtenVersions {
	return &writtenVersions{spans: map[writtenVersion]tracing.Ref{}}
}

// add notes that the span by wrote a version of object, and forgets the oldest version if there are
// too many.
func (w *writtenVersions) add(object kube.Ref, resourceVersion string, by tracing.Ref) {
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	v := writtenVersion{name, resourceVersion}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.spans[v]; known {
		return // a later request that changed nothing returned the same version
	}
	w.spans[v] = by
	if len(w.order) < mostWritten {
		w.order = append(w.order, v)
		return
	}
	delete(w.spans, w.order[w.next])
	w.order[w.next] = v
	w.next = (w.next + 1) % mostWritten
}

// writer returns the span that wrote the version that c names.
func (w *writtenVersions) writer(c store.Cause) (tracing.Ref, bool) {
	_, name, _ := strings.Cut(c.Object, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	by, found := w.spans[writtenVersion{name, c.ResourceVersion}]
	return by, found && operation.IsWriter(c.Manager) // otherwise the request changed nothing, and another client wrote the version
}
