// Package e2e_test tells stories of the whole operator: the scripts in testdata
// start the real program against a real API server.
package e2e_test

import (
	"fmt"
	"os"
	"testing"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/story"
)

func TestMain(m *testing.M) {
	code := cluster.Run(m)
	if err := story.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func TestStories(t *testing.T) { story.Run(t, "testdata") }
