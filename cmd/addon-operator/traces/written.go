package traces

import (
	"slices"
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
	mu      sync.Mutex
	spans   map[writtenVersion]tracing.Ref // mu guards this field and all fields below
	order   []writtenVersion               // a ring buffer of the versions; when it is full, the field next is the index of the oldest version
	next    int
	writing map[string]*requests // the objects that requests are writing, by their names
}

// requests are the requests that are writing one object.
type requests struct {
	count   int
	waiting []search // searches whose version may be written by one of the requests
}

// A search is a call of find that has not called its function yet.
type search struct {
	version writtenVersion
	found   func(by tracing.Ref, found bool)
}

func newWrittenVersions() *writtenVersions {
	return &writtenVersions{spans: map[writtenVersion]tracing.Ref{}, writing: map[string]*requests{}}
}

// begin records that a span begins a request that writes object. The argument by is the reference of this span. The
// caller must call the returned function once, after the request, with the version that was written; the version is
// empty if none was written.
func (w *writtenVersions) begin(object kube.Ref, by tracing.Ref) (end func(resourceVersion string)) {
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing[name] == nil {
		w.writing[name] = &requests{}
	}
	w.writing[name].count++
	return func(resourceVersion string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if resourceVersion != "" {
			w.add(writtenVersion{name, resourceVersion}, by)
		}
		w.end(name)
	}
}

// end records the end of a request that wrote the object with this name. end calls the functions of the searches whose
// version is known. At the end of the last request, end calls the functions of all searches.
func (w *writtenVersions) end(name string) {
	r := w.writing[name]
	r.count--
	r.waiting = slices.DeleteFunc(r.waiting, func(s search) bool {
		by, found := w.spans[s.version]
		if !found && r.count > 0 {
			return false
		}
		s.found(by, found)
		return true
	})
	if r.count == 0 {
		delete(w.writing, name)
	}
}

// add records that a span wrote a version. If there are more than mostWritten versions, add removes the oldest one.
func (w *writtenVersions) add(v writtenVersion, by tracing.Ref) {
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

// find searches for the span that wrote the object version in the cause c, and calls the given function once with the
// result. If the version is not known while requests are writing the object, find returns before this call. The call is
// then made at the end of the request that wrote the version, or at the end of the last request if none of them wrote
// it. The result is false if no span is known, or if another client wrote the version. The function must not block.
func (w *writtenVersions) find(c store.Cause, f func(by tracing.Ref, found bool)) {
	_, name, _ := strings.Cut(c.Object, " ")
	version := writtenVersion{name, c.ResourceVersion}
	w.mu.Lock()
	defer w.mu.Unlock()
	by, found := w.spans[version]
	switch r := w.writing[name]; {
	case !operation.IsWriter(c.Manager): // another client wrote the version; a span of it belongs to a request of the operator that changed nothing
		f(tracing.Ref{}, false)
	case !found && r != nil:
		r.waiting = append(r.waiting, search{version, f})
	default:
		f(by, found)
	}
}
