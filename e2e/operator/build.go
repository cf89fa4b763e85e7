package operator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the operator into dir in the same way as the command "make build", and the tools for hooks into
// dir/hooktools. Build returns the path of the operator. tags are build tags. The working directory must be inside the
// repository.
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

// repository returns the root directory of this repository: the working directory, or a parent of it.
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
