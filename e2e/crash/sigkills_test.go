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

// A sigkills counts the operators that SIGKILL has ended within a test, before its end.
type sigkills struct {
	mu     sync.Mutex
	byTest map[string]int
}

// killed are the counts of all tests.
var killed = sigkills{byTest: map[string]int{}}

// add counts a kill in the test of this name, which can be a subtest.
func (s *sigkills) add(test string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	test, _, _ = strings.Cut(test, "/")
	s.byTest[test]++
}

// fewestKills is the number of SIGKILLs that the tests of the package make at least. The converges that are killed in
// chains go on until they have most of them, so neither chance nor the speed of the machine changes that.
const fewestKills = 200

// report prints the count of each test, and the sum. It returns an error if all tests ran and the sum is too small: then a
// test no longer kills what it should.
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
