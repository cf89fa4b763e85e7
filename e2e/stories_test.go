// Package e2e_test tells stories of the whole operator: the scripts in testdata
// start the real program against a real API server.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/story"
)

// sideBySide is how many stories are told at once. They wait for most of the
// time.
const sideBySide = "5"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", sideBySide); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := cluster.Run(m)
	if err := story.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func TestStories(t *testing.T) { story.Run(t, "testdata") }
