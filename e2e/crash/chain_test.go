package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// effectFailpoints are the failpoints of the operator's effects, each with the first and the last
// time that may be chosen. The first time is high enough for the process before it to make
// progress: after three interruptions by crashes, work would be quarantined.
var effectFailpoints = []struct {
	name        string
	first, last int
}{
	{"commit:before", 6, 16},
	{"commit:after", 6, 16},
	{"hook:started", 3, 6},
	{"hook:ended", 3, 6},
	{"helm:before", 2, 2},
	{"helm:during", 3, 4},
	{"helm:after", 2, 2},
	{"configmap:written", 1, 1},
	{"lease:acquired", 1, 1},
}

// killsOfAChain is the maximum number of kills in one converge.
const killsOfAChain = 10

// killedInChains kills the operator several times within one converge, each time at another effect.
// CHAINS is the number of converges.
func killedInChains(t *testing.T, random *rand.Rand, continues bool, prepared int, want end) {
	t.Helper()
	chains := 9
	if text := os.Getenv("CHAINS"); text != "" {
		var err error
		if chains, err = strconv.Atoi(text); err != nil || chains < 1 {
			t.Fatalf("CHAINS=%q is no number of converges", text)
		}
	}
	var kills atomic.Int64
	t.Cleanup(func() { t.Logf("%d kills in %d converges", kills.Load(), chains) })
	for i := range chains {
		seed := random.Uint64()
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			t.Parallel()
			for most := killsOfAChain; ; most -= 2 {
				killed, within := chain(t, rand.New(rand.NewPCG(seed, 0)), continues, prepared, most, want)
				kills.Add(int64(killed))
				if within {
					return
				}
				t.Logf("the converge came to its end before kill %d; again with fewer", killed)
			}
		})
	}
}

// chain kills the operator up to most times within a converge, and compares the result. It returns
// false if a kill came after the end of the converge, because then the next process begins another
// converge.
func chain(t *testing.T, random *rand.Rand, continues bool, prepared, most int, want end) (kills int, within bool) {
	t.Helper()
	w := newEnvironment(t)
	w.continues = continues
	w.prepare(t, prepared)
	w.lay(t, w.after())
	for range most {
		at := effectFailpoints[random.IntN(len(effectFailpoints))]
		failpoint := fmt.Sprintf("%s:%d", at.name, at.first+random.IntN(at.last-at.first+1))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		p := w.start(t, "ADDON_OPERATOR_FAILPOINT="+failpoint)
		err := p.Ready(ctx)
		cancel()
		switch {
		case err == nil: // it has converged without reaching the failpoint
			w.endsAs(t, p, want, kills)
			return kills, true
		case !p.Killed():
			t.Fatalf("failpoint %s: %v", failpoint, err)
		}
		kills++
		if !w.isWithinStart(t) {
			return kills, false
		}
	}
	w.endsAs(t, w.start(t), want, kills)
	return kills, true
}
