package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Program returns the path of bin/controlplane, which has kubectl beside it, after building them. See [Start] for a cluster
// that it serves.
func Program() (string, error) { return program() }

// program returns the path of bin/controlplane, after building it with the programs beside it, as make controlplane does.
// That takes minutes the first time and seconds when nothing changed. Of several processes that come at once, as go test
// runs packages side by side, one builds and the others wait for it.
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
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", bin+"/", ".", "tool")
	build.Dir = filepath.Join(root, "e2e", "controlplane")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", build.Dir, err, output)
	}
	return filepath.Join(bin, "controlplane"), nil
}

// repository returns the directory of this repository, which is the working directory, as go test sets it, or above.
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
