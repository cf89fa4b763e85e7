package crashimage

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// Check writes each image of the recording to a directory, and calls check with the directory and the image. It
// checks several images in parallel, each in its own directory, and stops when the test has failed. It returns the
// number of checked images. If the environment variable CRASH_IMAGES has a number, Check sets o.Subsets to this
// number and o.Most to 0, which means no limit.
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

// scratch returns a new directory for images. The directory is in memory, because it is only needed during the test;
// on a machine without /dev/shm it is on disk.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "crashimage-*") //nolint:usetesting // t.TempDir may be on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
