// Package crash_test kills the operator with SIGKILL, starts it again, and
// compares what hooks were told and what the cluster holds with what they are
// when nobody kills it. A *environment* is one operator with a namespace of its own; its
// *record* is the file to which the environment's hooks append what they are told.
package crash_test

import (
	"os"
	"sync"
	"testing"

	"addon-operator/e2e/cluster"
)

// program is the operator that all tests run.
var program struct {
	once sync.Once
	path string
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := cluster.Run(m)
	if program.dir != "" {
		_ = os.RemoveAll(program.dir) // a temporary directory
	}
	os.Exit(code)
}
