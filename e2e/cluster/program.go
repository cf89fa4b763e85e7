package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Program builds bin/controlplane, with kubectl in the same directory, and returns the path of controlplane. To get a
// running cluster, use [Start] or [New].
func Program() (string, error) { return program() }

// program builds bin/controlplane and other programs in bin, in the same way as the command "make controlplane", and
// returns the path of controlplane. The first build on a machine takes minutes, and a build without changes takes
// seconds. If several processes call program at the same time, as when go test runs packages in parallel, a lock lets
// only one of them build at a time.
func program() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".controlplane.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin+"/", ".", "tool")
	build.Dir, build.Env = filepath.Join(root, "e2e", "controlplane"), append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", build.Dir, err, output)
	}
	return filepath.Join(bin, "controlplane"), nil
}

// repository returns the root directory of this repository: the working directory, or a parent of it.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "e2e", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no e2e/controlplane in %s or above: run the tests inside the repository", start)
		}
	}
}
