package crash_test

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A sigkills counts the operator processes that tests have ended with SIGKILL. It does not count a process that is
// killed only to clean up at the end of its test.
type sigkills struct {
	mu     sync.Mutex
	byTest map[string]int
}

// killed has the numbers of kills of all tests of this package.
var killed = sigkills{byTest: map[string]int{}}

// add counts one kill in the named test, which can be a subtest.
func (s *sigkills) add(test string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	test, _, _ = strings.Cut(test, "/")
	s.byTest[test]++
}

// fewestKills is the minimum number of SIGKILLs in all tests of the package. Most of them are made by
// [killedInChains], which continues until there are killsInChains kills. So the sum depends neither on chance nor on
// the speed of the machine.
const fewestKills = 200

// report prints the count of each test, and the sum. whole says whether all tests ran. If it is true and the sum is
// less than fewestKills, report returns an error, because a test has not killed the operator as intended.
func (s *sigkills) report(to io.Writer, whole bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for _, test := range slices.Sorted(maps.Keys(s.byTest)) {
		fmt.Fprintf(to, "%s: %d SIGKILLs\n", test, s.byTest[test])
		sum += s.byTest[test]
	}
	fmt.Fprintf(to, "all tests: %d SIGKILLs\n", sum)
	if whole && sum < fewestKills {
		return fmt.Errorf("the tests of the package made %d SIGKILLs, want at least %d", sum, fewestKills)
	}
	return nil
}

func TestTooFewSIGKILLsAreAnErrorIfAllTestsRan(t *testing.T) {
	few, enough := sigkills{byTest: map[string]int{}}, sigkills{byTest: map[string]int{}}
	for range fewestKills - 1 {
		few.add("TestA/one")
		enough.add("TestA/other")
	}
	enough.add("TestB")
	for _, c := range []struct {
		of     *sigkills
		whole  bool
		failed bool
	}{{&few, true, true}, {&few, false, false}, {&enough, true, false}} {
		if err := c.of.report(io.Discard, c.whole); (err != nil) != c.failed {
			t.Errorf("%v of %v, all tests ran: %t", err, c.of.byTest, c.whole)
		}
	}
}
