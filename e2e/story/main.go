package story

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"addon-operator/e2e/cluster"
)

// parallelStories is the maximum number of stories that run in parallel. It can be higher than the number of CPUs,
// because a story waits most of the time.
const parallelStories = "5"

// Main runs the tests of a package with stories, deletes the built program, and exits. TestMain must call it.
func Main(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallelStories); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := cluster.Run(m)
	if err := Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
