package story

import (
	"os"
	"sync"

	program "addon-operator/e2e/operator"
)

// built is the program under test, built once a process.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Build returns the path of the operator, built from the sources as they are
// now, with the tools for hooks beside it. [Clean] removes it.
func Build() (string, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "stories-"); built.err == nil {
			built.path, built.err = program.Build(built.dir)
		}
	})
	return built.path, built.err
}

// Clean removes what Build has built.
func Clean() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}
