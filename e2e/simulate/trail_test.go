package simulate_test

import (
	"context"
	"runtime/pprof"
	"unsafe"
)

// trails has, for each goroutine, the last gate that it has passed: its trail. A goroutine that has
// passed no gate has the trail of the goroutine that started it. A trail is a label for profiles,
// and the Go runtime copies these labels to new goroutines.
type trails struct {
	labels map[string]context.Context // by trail
	names  map[unsafe.Pointer]string  // names of trails, by label
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

// labelOfGoroutine returns the profile label of the calling goroutine. Package runtime/pprof has no
// exported function for this.
//
//go:linkname labelOfGoroutine runtime/pprof.runtime_getProfLabel
func labelOfGoroutine() unsafe.Pointer
