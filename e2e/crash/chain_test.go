package crash_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"addon-operator/e2e/operator"
	"addon-operator/internal/lease"
)

// effectFailpoints are failpoints at commits, hooks, Helm actions, writes of the ConfigMap and changes of the Lease.
// The operator is killed when it reaches the chosen failpoint for the n-th time, where n is random between first and
// last. The value of first is high enough that each process makes progress before the kill: three crashes during the
// same work would put the work in quarantine.
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
	{leaseRenewed, 1, 1},
	{leaseLost, 1, 1},
}

// Failpoints of the Lease. A process renews the Lease every two seconds. After a renewal it reaches leaseRenewed. If it
// finds that it has lost the Lease, it reaches leaseLost. Both can happen after the end of the converge.
const (
	leaseRenewed = "lease:renewed"
	leaseLost    = "lease:lost"
)

// A failpointCount counts the kills at each failpoint.
type failpointCount struct {
	mu    sync.Mutex
	kills map[string]int
}

func (c *failpointCount) add(failpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills[failpoint]++
}

// sum returns the number of all kills.
func (c *failpointCount) sum() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kills := range c.kills {
		n += kills
	}
	return n
}

// report logs the kills at each failpoint. chains is the number of converges. If it is at least chainsThatReachAll,
// report fails the test for each failpoint without a kill.
func (c *failpointCount) report(t *testing.T, chains int) {
	t.Helper()
	for _, f := range effectFailpoints {
		n := c.kills[f.name]
		if t.Logf("%d kills at %s", n, f.name); n == 0 && chains >= chainsThatReachAll {
			t.Errorf("failpoint %s was not reached in %d converges", f.name, chains)
		}
	}
	t.Logf("%d kills in %d converges", c.sum(), chains)
}

// chainsThatReachAll is the number of converges after which each failpoint must have been reached.
const chainsThatReachAll = 50

// killsInChains is the number of kills after which killedInChains begins no further converges. The number of kills in
// one converge varies, because a converge can end before it reaches the chosen failpoint.
const killsInChains = 75

// chainsAtOnce is the number of converges that run in parallel, each in its own environment.
const chainsAtOnce = 5

// killsOfAChain is the maximum number of kills in one converge.
const killsOfAChain = 10

// killedInChains kills the operator several times within one converge, each time at a random failpoint. It repeats this
// with further converges until it has made at least killsInChains kills. If the environment variable CHAINS is set, its
// value is the number of converges instead.
func killedInChains(t *testing.T, random *rand.Rand, continues bool, prepared int, want end) {
	t.Helper()
	most := math.MaxInt
	if text := os.Getenv("CHAINS"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 {
			t.Fatalf("CHAINS=%q is no number of converges", text)
		}
	}
	count, chains := failpointCount{kills: map[string]int{}}, 0
	for chains < most && (most < math.MaxInt || count.sum() < killsInChains) && !t.Failed() {
		group := min(chainsAtOnce, most-chains)
		t.Run(strconv.Itoa(chains+1), func(t *testing.T) {
			for range group {
				seed := random.Uint64()
				t.Run("chain", func(t *testing.T) {
					t.Parallel()
					count.kill(t, seed, continues, prepared, want)
				})
			}
		})
		chains += group
	}
	count.report(t, chains)
}

// kill kills the operator several times within one converge, and counts the kills. If the converge ends before the
// last kill, kill tries again with fewer kills in a new environment.
func (c *failpointCount) kill(t *testing.T, seed uint64, continues bool, prepared int, want end) {
	t.Helper()
	for most := killsOfAChain; ; {
		kills, within := c.chain(t, rand.New(rand.NewPCG(seed, 0)), continues, prepared, most, want)
		if within {
			return
		}
		t.Logf("the converge ended before kill %d; trying again with fewer kills", kills)
		most = kills - 1
	}
}

// chain kills the operator within a converge, and compares the state at the end of the converge with want. The
// parameter most is the maximum number of kills. The second result is false if the last kill came after the end of the
// converge, for example while a later event was processed. In this case the next process would begin another converge,
// so chain compares nothing.
func (c *failpointCount) chain(t *testing.T, random *rand.Rand, continues bool, prepared, most int, want end) (kills int, within bool) {
	t.Helper()
	w := newEnvironment(t)
	w.continues = continues
	w.prepare(t, prepared)
	w.lay(t, w.after())
	for range most {
		at := effectFailpoints[random.IntN(len(effectFailpoints))]
		failpoint := fmt.Sprintf("%s:%d", at.name, at.first+random.IntN(at.last-at.first+1))
		p, dead := w.startUntil(t, failpoint)
		if !dead { // the operator has converged without reaching the failpoint
			err := w.rest(t, p, total(want.Told))
			if !p.Killed() {
				if err != nil {
					t.Error(err)
				}
				w.isAs(t, want, kills)
				return kills, true
			}
		}
		kills++
		c.add(at.name)
		if !dead || !w.isWithinStart(t) {
			return kills, false
		}
		if work := w.runsAlone(t); work != "" {
			t.Logf("%s runs alone in the next process, because two crashes have interrupted it: no further kill", work)
			break
		}
	}
	w.endsAs(t, w.start(t), want, kills)
	return kills, true
}

// startUntil starts an operator that kills itself at failpoint, and waits until the operator is dead or has converged.
// If failpoint is leaseRenewed or leaseLost, startUntil waits until the operator is dead, because an operator
// continues to renew its Lease after the converge.
func (w *environment) startUntil(t *testing.T, failpoint string) (p *operator.Process, dead bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	term := w.term(t)
	p = w.start(t, "ADDON_OPERATOR_FAILPOINT="+failpoint)
	lost, never := strings.HasPrefix(failpoint, leaseLost), func() bool { return false }
	if lost {
		w.takeLease(ctx, t, p, term)
		defer w.holdLease(t, "") // so that the next process does not wait until the Lease expires
	}
	var err error
	if lost || strings.HasPrefix(failpoint, leaseRenewed) {
		err = p.Until(ctx, "the failpoint", never)
	} else {
		err = p.Ready(ctx)
	}
	if err != nil && !p.Killed() {
		t.Fatalf("failpoint %s: %v", failpoint, err)
	}
	return p, err != nil
}

// term returns the number of times that operators have acquired the Lease of the namespace.
func (w *environment) term(t *testing.T) int32 {
	t.Helper()
	l, err := w.client.CoordinationV1().Leases(w.operator.Namespace).Get(t.Context(), lease.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if err != nil || l.Spec.LeaseTransitions == nil {
		return 0
	}
	return *l.Spec.LeaseTransitions
}

// takeLease makes another holder the holder of the Lease as soon as p has acquired it. term is the number of
// acquisitions before p was started.
func (w *environment) takeLease(ctx context.Context, t *testing.T, p *operator.Process, term int32) {
	t.Helper()
	if err := p.Until(ctx, "the Lease to be acquired", func() bool { return w.term(t) > term }); err != nil {
		if p.Killed() { // without enough CPU time, p can fail to renew its Lease; then p reaches the failpoint for a lost Lease before the holder changes
			return
		}
		t.Fatal(err)
	}
	w.holdLease(t, "another")
}

// holdLease makes holder the holder of the Lease. It keeps all other fields, so that the next
// operator continues with the work in its store.
func (w *environment) holdLease(t *testing.T, holder string) {
	t.Helper()
	leases := w.client.CoordinationV1().Leases(w.operator.Namespace)
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		l, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		l.Spec.HolderIdentity = &holder
		_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
		return err
	}); err != nil {
		t.Error(err)
	}
}
