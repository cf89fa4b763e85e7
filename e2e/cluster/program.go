package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// program returns the path of bin/controlplane, after building it if it is missing or its source is newer. Of several
// processes that come at once, as go test runs packages side by side, one builds and the others wait for it.
func program() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	source, target := filepath.Join(root, "e2e", "controlplane"), filepath.Join(root, "bin", "controlplane")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(target), ".controlplane.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if current, err := builtFrom(target, source); err != nil || current {
		return target, err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", target, ".")
	build.Dir = source
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", source, err, output)
	}
	return target, nil
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

// builtFrom says whether the file target is there and newer than every file of the directory source.
func builtFrom(target, source string) (bool, error) {
	built, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var newest time.Time
	err = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	return built.ModTime().After(newest), err
}
