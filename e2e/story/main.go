package story

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"addon-operator/e2e/cluster"
)

// parallelStories is the number of stories that run at the same time. They can be more than there are CPUs, because a
// story waits most of the time.
const parallelStories = "5"

// Main runs the tests of a package of stories, deletes what they built, and exits. TestMain calls it.
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
