package source

import (
	"syscall"
	"testing"
)

// TestTemporaryFilesUseAtMostHalfOfTheirFileSystem checks that fetches leave room for the files of hooks in the pod of
// the operator, where both are in a volume of 128 MiB.
func TestTemporaryFilesUseAtMostHalfOfTheirFileSystem(t *testing.T) {
	t.Parallel()
	const mebibyte, unlimited = 1 << 20, 1 << 60
	f := newFetcher(t, Options{Limits: Limits{Disk: unlimited, Repository: unlimited}})
	fileSystem := sizeOfFileSystem(f.disk.dir)
	if left := f.disk.left.Load(); left > fileSystem/2 || f.limits.Repository > left {
		t.Errorf("the temporary files can have %d bytes, and a repository %d bytes, in a file system of %d bytes", left, f.limits.Repository, fileSystem)
	}
	type limits struct{ disk, repository int64 }
	for name, c := range map[string]struct {
		fileSystem int64
		want       limits
	}{
		"volume in memory": {128 * mebibyte, limits{64 * mebibyte, 64 * mebibyte}},
		"no whole number":  {128*mebibyte - 1, limits{63 * mebibyte, 63 * mebibyte}},
		"between both":     {1024 * mebibyte, limits{512 * mebibyte, 256 * mebibyte}},
		"large disk":       {1 << 40, limits{1024 * mebibyte, 256 * mebibyte}},
		"very small":       {4096, limits{mebibyte, mebibyte}},
		"not known":        {0, limits{1024 * mebibyte, 256 * mebibyte}},
	} {
		l := DefaultLimits.within(c.fileSystem)
		if got := (limits{l.Disk, l.Repository}); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTheSizeOfAFileSystemIsNotCountedInUnitsOfReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		disk syscall.Statfs_t
		want int64
	}{
		"in memory":                       {syscall.Statfs_t{Blocks: 1 << 15, Bsize: 4096, Frsize: 4096}, 128 << 20},
		"in user space, with large reads": {syscall.Statfs_t{Blocks: 1 << 15, Bsize: 1 << 20, Frsize: 4096}, 128 << 20},
		"without units":                   {syscall.Statfs_t{Blocks: 1 << 15, Bsize: 4096}, 128 << 20},
		"in memory, without a limit":      {syscall.Statfs_t{Bsize: 4096, Frsize: 4096}, 0},
		"larger than any number":          {syscall.Statfs_t{Blocks: 1 << 60, Bsize: 4096, Frsize: 4096}, 0},
	} {
		if got := sizeOf(c.disk); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
