package operator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the operator into dir as make build does, with tools for its
// hooks beside it, and returns the path of the program. The tags are build tags.
// The caller runs somewhere inside the repository.
func Build(dir string, tags ...string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "addon-operator")
	for target, source := range map[string]string{program: "addon-operator", filepath.Join(dir, "hooktools", "jq"): "jq"} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags="+strings.Join(tags, ","),
			"-o", target, "./cmd/"+source)
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", source, err, output)
		}
	}
	return program, nil
}

// repository returns the directory of this repository, which is the working
// directory, as go test sets it, or above.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "addon-operator", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no cmd/addon-operator in %s or above: run inside the repository", start)
		}
	}
}
