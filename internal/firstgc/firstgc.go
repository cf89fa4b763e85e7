// Package firstgc delays the first garbage collection of a program until its heap has [Heap] bytes. By default, Go
// collects garbage for the first time at 4 MiB. So the collector would run several times while the program starts,
// although most of the allocated memory stays in use. A short command would spend a quarter of its time on
// collections. If the environment variable GOGC is set, the package changes nothing.
//
// The package must be initialized before the packages that allocate much memory. Go sorts packages by import path. In
// each step, Go initializes the first package whose imports are all initialized
// (https://go.dev/ref/spec#Program_initialization). This package imports only a few packages of the standard library,
// and its path sorts before the paths of other modules. So it is one of the first packages to be initialized.
package firstgc

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Heap is the size of the heap, in bytes, at which the first garbage collection starts.
const Heap = 64 << 20

// leastHeap is the size of the heap, in bytes, at which Go starts the first collection if GOGC is 100.
const leastHeap = 4 << 20

// collector contains the state of the garbage collector.
var collector = struct {
	sync.Mutex

	growth  int  // GOGC after the first collection, in percent
	started bool // whether the first collection has ended
}{growth: 100}

func init() { //nolint:gochecknoinits // must run before packages that allocate much memory are initialized
	if isSetByUser() {
		return
	}
	debug.SetGCPercent(100 * Heap / leastHeap)
	// Nothing refers to the new object, so the first collection frees it, and the cleanup runs.
	runtime.AddCleanup(new([64]byte), func(struct{}) {
		collector.Lock()
		defer collector.Unlock()
		collector.started = true
		debug.SetGCPercent(collector.growth)
	}, struct{}{})
}

// SetGrowth sets the percentage of the live heap by which the heap grows until the next collection, as
// [debug.SetGCPercent] does. The percentage applies from the end of the first collection on. The default is 100, as in
// Go. If the environment variable GOGC is set, SetGrowth does nothing.
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
