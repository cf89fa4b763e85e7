package main

import (
	"runtime"

	"addon-operator/internal/firstgc"
)

const (
	// heapGrowth is the growth of the heap before the garbage collector runs, in percent of the live heap. It is less
	// than Go's default, which is 100, because the operator shares the memory of its pod with hooks.
	heapGrowth = 50

	// heapReserve is the size of an allocation that is never used. The garbage collector treats the
	// allocation as live, and so runs less often while the heap is small. The allocation occupies no
	// physical memory, because it is never written.
	heapReserve = 12 << 20
)

// limitHeap limits the growth of the heap to [heapGrowth]. The environment variable GOGC has precedence over
// [heapGrowth]. limitHeap also makes the allocation of [heapReserve], which lasts until the returned function is
// called.
func limitHeap() (end func()) {
	firstgc.SetGrowth(heapGrowth)
	reserve := make([]byte, heapReserve)
	return func() { runtime.KeepAlive(reserve) }
}
