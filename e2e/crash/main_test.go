// Package crash_test kills the operator with SIGKILL and starts it again. It compares the deliveries to hooks and the
// objects in the cluster with those of an operator that was not killed. An *environment* is one operator with its own
// namespace. The *record* of an environment is the file to which its hooks append their binding contexts.
package crash_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"addon-operator/e2e/cluster"
)

// program is the executable of the operator that all tests run. build sets it.
var program struct {
	once sync.Once
	path string
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := cluster.Run(m)
	if err := killed.report(os.Stdout, isWhole()); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if program.dir != "" {
		_ = os.RemoveAll(program.dir) // a temporary directory
	}
	os.Exit(code)
}

// isWhole reports whether go test ran all tests of the package, with the default number of kills.
func isWhole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return !testing.Short() && os.Getenv("KILLS") == "" && os.Getenv("CHAINS") == ""
}
