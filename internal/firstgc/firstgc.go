// Package firstgc delays the first garbage collection of a program until its heap has [Heap] bytes. Go starts with a
// heap of 4 MiB. Therefore the collector would run several times while the program starts, although most of the
// allocated memory stays in use. A short command would spend a quarter of its time on this.
//
// The package must be initialized before the packages that allocate much memory. Go sorts packages by import path,
// and initializes the first one whose imports are all initialized (https://go.dev/ref/spec#Program_initialization).
// This package imports only a few packages of the standard library, and its path sorts before the paths of other
// modules. So it is one of the first.
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

// collector is the state of the garbage collector, as far as this package must know it.
var collector = struct {
	sync.Mutex

	growth  int  // growth of the heap after the first collection, in percent
	started bool // the first collection has ended
}{growth: 100}

func init() { //nolint:gochecknoinits // it must run before packages that allocate much memory
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

// SetGrowth sets the growth of the heap between two collections, after the first collection. It is in percent of the
// live heap. The default is 100, as in Go. GOGC in the environment has precedence.
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
