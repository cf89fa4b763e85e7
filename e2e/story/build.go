package story

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// built is the program under test, built once a process.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// Build returns the path of the operator, built from the sources as they are
// now, with the tools for hooks beside it. [Clean] removes it.
func Build() (string, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "stories-"); built.err == nil {
			built.err = build(built.dir)
		}
	})
	return filepath.Join(built.dir, "addon-operator"), built.err
}

// Clean removes what Build has built.
func Clean() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}

func build(dir string) error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	for target, source := range map[string]string{"addon-operator": "./cmd/addon-operator", "hooktools/jq": "./cmd/jq"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, target), source)
		cmd.Dir = strings.TrimSpace(string(module))
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", source, err, output)
		}
	}
	return nil
}
