package crashimage

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// Check makes each image in a directory of its own and calls check with it, for several images at once, until the
// test has failed. It returns how many images there were. The variable CRASH_IMAGES asks for that many images with
// parts chosen by chance for each moment, and for all others.
func (r *Recording) Check(t *testing.T, o Options, check func(dir string, image Image)) (images int) {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("CRASH_IMAGES")); err == nil {
		o.Subsets, o.Most = n, 0
	}
	queue := make(chan Image)
	var checkers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		dir := scratch(t)
		checkers.Go(func() {
			for image := range queue {
				if err := image.Write(dir); err != nil {
					t.Error(err)
					continue
				}
				check(dir, image)
			}
		})
	}
	for image := range r.Images(o) {
		queue <- image
		if images++; t.Failed() {
			break
		}
	}
	close(queue)
	checkers.Wait()
	return images
}

// scratch returns a directory in memory, where there is one: nothing in it has to last.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "crashimage-*") //nolint:usetesting // the test's own is on the disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
