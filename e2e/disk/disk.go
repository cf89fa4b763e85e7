// Package disk makes small file systems for tests that need a full disk.
package disk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A Disk is a small file system in memory. It is mounted in a new user namespace and mount namespace, so the mount
// needs no privileges. The file system is removed when the process that holds the namespaces ends, which is at the end
// of the test.
type Disk struct {
	// Dir is the path of the root of the file system, for this process and the programs that it starts.
	Dir string
}

// New mounts a disk until the end of the test. size is its size in the notation of tmpfs, such as "64m". If the kernel
// or the container forbids the mount, New skips the test.
func New(t testing.TB, size string) *Disk {
	t.Helper()
	at := t.TempDir()
	holder := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o "size=$1" none "$2" && echo mounted && exec cat`, "sh", size, at)
	stdin, err1 := holder.StdinPipe() // cat holds the namespace until this pipe is closed or this process ends
	stdout, err2 := holder.StdoutPipe()
	holder.Stderr = os.Stderr
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // fails only if the pipe is closed already
		_ = holder.Wait() // cat ends when stdin is closed
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Skipf("no small file system can be mounted here: unshare and mount -t tmpfs printed %q", line)
	}
	return &Disk{Dir: fmt.Sprintf("/proc/%d/root%s", holder.Process.Pid, at)}
}

// Fill keeps the disk full until ctx is done, even if other files are deleted meanwhile. Then it frees the space that
// it has filled.
func (d *Disk) Fill(ctx context.Context) error {
	path := filepath.Join(d.Dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for page := make([]byte, 4<<10); ctx.Err() == nil; {
		_, err := f.Write(page)
		if err == nil {
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, f.Close(), os.Remove(path))
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	return errors.Join(f.Close(), os.Remove(path))
}
