package story

import (
	"os"
	"sync"

	program "addon-operator/e2e/operator"
)

// built is the program that the stories of this process run. The first call of Build builds it.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Build builds the operator and the tools for hooks in a temporary directory, and returns the path of the operator.
// [Clean] removes the directory.
func Build() (string, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "stories-"); built.err == nil {
			built.path, built.err = program.Build(built.dir)
		}
	})
	return built.path, built.err
}

// Clean removes the files that [Build] has created.
func Clean() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}
