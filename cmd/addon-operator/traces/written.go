package traces

import (
	"strings"
	"sync"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/internal/tracing"
	"addon-operator/store"
)

// mostWritten is the maximum number of versions in writtenVersions.
const mostWritten = 4096

// A writtenVersion identifies a version of an object. A writtenVersion does not contain the kind, because objects of
// different kinds have different resource versions.
type writtenVersion struct{ object, resourceVersion string }

// writtenVersions records which span wrote which version of an object. If one of these versions causes a run, the run
// is linked to the span that wrote the version.
type writtenVersions struct {
	mu    sync.Mutex
	spans map[writtenVersion]tracing.Ref // mu guards this field and all fields below
	order []writtenVersion               // a ring buffer of the versions; when it is full, the field next is the index of the oldest version
	next  int
}

func newWrittenVersions() *writtenVersions {
	return &writtenVersions{spans: map[writtenVersion]tracing.Ref{}}
}

// add records that a span wrote a version of object. The argument by is the reference of this span.
// If there are more than mostWritten versions, add removes the oldest one.
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

// writer returns the span that wrote the object version in the cause c. writer returns false if no
// span is known, or if another client wrote the version.
func (w *writtenVersions) writer(c store.Cause) (tracing.Ref, bool) {
	_, name, _ := strings.Cut(c.Object, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	by, found := w.spans[writtenVersion{name, c.ResourceVersion}]
	return by, found && operation.IsWriter(c.Manager) // if another client is the manager, it wrote the version, and the request of the span changed nothing
}
