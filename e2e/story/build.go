package story

import (
	"os"
	"sync"

	program "addon-operator/e2e/operator"
)

// built is the tested program. Each process builds it once.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Build builds the operator, with the tools for hooks beside it, and returns the path of the operator. [Clean]
// removes the files.
func Build() (string, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "stories-"); built.err == nil {
			built.path, built.err = program.Build(built.dir)
		}
	})
	return built.path, built.err
}

// Clean removes the files of Build.
func Clean() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}
