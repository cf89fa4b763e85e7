package simulate_test

import (
	"context"
	"runtime/pprof"
	"unsafe"
)

// trails has the trail of each goroutine: the name of the last gate that it has passed and that identified its work,
// according to [tells]. A goroutine that has passed no such gate has the trail of the goroutine that started it. A
// trail is stored as a profiler label of the goroutine, because the Go runtime copies these labels to new goroutines.
type trails struct {
	labels map[string]context.Context // by trail
	names  map[unsafe.Pointer]string  // trails, by profiler label
}

func newTrails() trails {
	return trails{labels: map[string]context.Context{}, names: map[unsafe.Pointer]string{}}
}

// current returns the trail of the calling goroutine.
func (t trails) current() string { return t.names[labelOfGoroutine()] }

// follow sets the trail of the calling goroutine to name.
func (t trails) follow(name string) {
	label := t.labels[name]
	if label == nil {
		label = pprof.WithLabels(context.Background(), pprof.Labels("gate", name))
		t.labels[name] = label
	}
	pprof.SetGoroutineLabels(label)
	t.names[labelOfGoroutine()] = name
}

// labelOfGoroutine returns the profiler labels of the calling goroutine. Package runtime/pprof has no exported
// function for this.
//
//go:linkname labelOfGoroutine runtime/pprof.runtime_getProfLabel
func labelOfGoroutine() unsafe.Pointer
