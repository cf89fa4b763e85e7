// Package firstgc delays the first garbage collection of a program until its heap has [Heap] bytes. Go starts with a heap of
// 4 MiB. Therefore the collector would run several times while the packages are initialized and the program starts, although
// most of what they allocate stays in use. A short command would spend a quarter of its time on this.
//
// The package must be initialized before the packages that allocate much memory. Of the packages whose imports are
// initialized, Go initializes the one with the first import path (https://go.dev/ref/spec#Program_initialization). This
// package imports only packages of the runtime, and its path is before those of other modules, so it is one of the first.
package firstgc

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Heap is the size of the heap at the first garbage collection, in bytes.
const Heap = 64 << 20

// leastHeap is the size of the heap at the first collection if the growth is 100 percent.
const leastHeap = 4 << 20

// collector is what this package knows of the collector.
var collector = struct {
	sync.Mutex

	growth  int  // of the heap after the first collection, in percent
	started bool // the first collection has ended
}{growth: 100}

func init() { //nolint:gochecknoinits // it must run before the packages that allocate
	if isSetByUser() {
		return
	}
	debug.SetGCPercent(100 * Heap / leastHeap)
	// Nothing refers to the new object, so the first collection frees it.
	runtime.AddCleanup(new([64]byte), func(struct{}) {
		collector.Lock()
		defer collector.Unlock()
		collector.started = true
		debug.SetGCPercent(collector.growth)
	}, struct{}{})
}

// SetGrowth sets how much the heap grows between two collections after the first, in percent of the live heap. The default
// is 100, as in Go. GOGC in the environment has precedence.
func SetGrowth(percent int) {
	if isSetByUser() {
		return
	}
	collector.Lock()
	defer collector.Unlock()
	collector.growth = percent
	if collector.started {
		debug.SetGCPercent(percent)
	}
}

func isSetByUser() bool { return os.Getenv("GOGC") != "" }
