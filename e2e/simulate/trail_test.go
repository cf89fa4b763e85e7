package simulate_test

import (
	"context"
	"runtime/pprof"
	"unsafe"
)

// trails are the last gates that goroutines have passed. A goroutine that has passed none has the trail of the one
// that started it: the Go runtime passes the labels of profiles on in this way, and a trail is such a label.
type trails struct {
	labels map[string]context.Context // by trail
	names  map[unsafe.Pointer]string  // of trails, by label
}

func newTrails() trails {
	return trails{labels: map[string]context.Context{}, names: map[unsafe.Pointer]string{}}
}

// current returns the trail of the calling goroutine.
func (t trails) current() string { return t.names[labelOfGoroutine()] }

// follow makes name the trail of the calling goroutine.
func (t trails) follow(name string) {
	label := t.labels[name]
	if label == nil {
		label = pprof.WithLabels(context.Background(), pprof.Labels("gate", name))
		t.labels[name] = label
	}
	pprof.SetGoroutineLabels(label)
	t.names[labelOfGoroutine()] = name
}

// labelOfGoroutine returns the label of the calling goroutine, which has no other accessor.
//
//go:linkname labelOfGoroutine runtime/pprof.runtime_getProfLabel
func labelOfGoroutine() unsafe.Pointer
