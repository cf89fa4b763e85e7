package simulate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// A scheduler decides which goroutine continues. Each goroutine of the operator waits at a gate before an action that
// other goroutines can notice: a transaction, a commit, a request, the delivery of watched changes, or the start or
// end of a hook. When all goroutines wait, at a gate or for another reason, the scheduler opens one gate, which it
// chooses at random from the seed. If no goroutine is at a gate, the simulated time advances.
type scheduler struct {
	chance  *rand.Rand // see [scheduler.below]
	arrived chan struct{}
	opened  func(gate string) // called when a gate is opened; can be nil

	mu      sync.Mutex
	waiting []*gate
	paused  *process // the process whose gates stay closed; nil if none is paused
	turn    int      // number of the current turn; a turn begins when a gate is opened, and when the simulated time advances
	trails  trails
}

// A gate is a place where a goroutine waits for the scheduler. Several goroutines can run within a turn, and their
// order can differ between equal simulations, because the Go runtime preempts a goroutine that has run for 10 ms of
// real time. So no field of a gate depends on this order.
type gate struct {
	process *process
	name    string
	trail   string // name of the last gate that identified the work of the goroutine, according to [tells]
	turn    int    // the turn in which the goroutine arrived
	sent    bool   // whether its process was paused while the goroutine waited
	open    chan struct{}
}

func newScheduler(seed uint64) *scheduler {
	return &scheduler{
		chance:  rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // the history of a seed must be reproducible
		arrived: make(chan struct{}, 1),
		trails:  newTrails(),
	}
}

// pass returns when the scheduler lets the caller, a goroutine of p, continue. pass returns at once if p was killed.
// The result paused is true if p was paused while the caller waited. In this case the caller may carry out an action
// for which it checked the Lease before the pause.
func (s *scheduler) pass(p *process, name string) (paused bool) {
	g := &gate{process: p, name: name, open: make(chan struct{})}
	s.mu.Lock()
	if p.dead.Load() {
		s.mu.Unlock()
		return false
	}
	g.sent = s.paused == p
	g.trail, g.turn = s.trails.current(), s.turn
	s.waiting = append(s.waiting, g)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	<-g.open
	if tells(name) {
		s.mu.Lock()
		s.trails.follow(name)
		s.mu.Unlock()
	}
	return g.sent
}

// pause keeps all gates of p closed until proceed is called, or p is killed.
func (s *scheduler) pause(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = p
	for _, g := range s.waiting {
		g.sent = g.sent || g.process == p
	}
}

// writesConfigMap reports whether a goroutine is about to send a request that changes a ConfigMap. loseLease pauses the
// operator at such a request, because this request is still sent after the pause. Requests for release records of Helm
// and for the Lease would time out during the pause.
func (s *scheduler) writesConfigMap() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.waiting, func(g *gate) bool {
		words := strings.Fields(g.name) // such as "request PUT configmaps NAME"
		return len(words) > 2 && words[0] == "request" && words[1] != "GET" && words[1] != "WATCH" && words[2] == "configmaps"
	})
}

// proceed ends a pause.
func (s *scheduler) proceed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = nil
}

// tells reports whether the name of a gate identifies the work of a goroutine: the objects that it watches, or the
// task that it processes. Names of transactions and commits do not identify it, because many goroutines have
// transactions of the same name.
func tells(name string) bool {
	kind, _, _ := strings.Cut(name, " ")
	return kind != "update" && kind != "commit"
}

// release opens all gates at which goroutines of p wait. p must have been killed.
func (s *scheduler) release(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(g *gate) bool {
		if g.process == p {
			close(g.open)
		}
		return g.process == p
	})
}

// next waits until all goroutines wait, opens one gate, and returns the name of the gate. It returns "" if no gate can
// be opened.
func (s *scheduler) next() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.waiting, func(a, b *gate) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.trail, b.trail), cmp.Compare(a.turn, b.turn))
	})
	can := s.waiting
	if s.paused != nil {
		can = slices.DeleteFunc(slices.Clone(can), func(g *gate) bool { return g.process == s.paused })
	}
	if len(can) == 0 {
		return ""
	}
	s.turn++
	g := can[s.chance.IntN(len(can))]
	if s.opened != nil {
		s.opened(fmt.Sprintf("%s, one of %d", g.name, len(can)))
	}
	i := slices.Index(s.waiting, g)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	close(g.open)
	return g.name
}

// idle advances the simulated time until a goroutine arrives at a gate, but at most to the given time.
func (s *scheduler) idle(until time.Time) {
	s.mu.Lock()
	s.turn++
	s.mu.Unlock()
	alarm := time.NewTimer(time.Until(until))
	defer alarm.Stop()
	select {
	case <-s.arrived:
	case <-alarm.C:
	}
}

// below returns a random number from 0 to n-1. It may be called by the goroutine that the scheduler
// has let continue, and by the goroutine of the simulation while all others wait. So the order of the
// calls, and with it the numbers, depend on the seed alone.
func (s *scheduler) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chance.IntN(n)
}

// callers caches the results of caller, by the call stack.
var callers sync.Map

// caller returns the name of the function that has begun the current transaction: the innermost function of the
// operator on the call stack that is neither in package store nor below e2e. For a transition of the engine, it is the
// caller of Engine.update.
func caller() string {
	var stack [24]uintptr
	n := runtime.Callers(2, stack[:])
	if name, known := callers.Load(stack); known {
		return name.(string) //nolint:forcetypeassert // callers has only strings
	}
	name := callerIn(stack[:n])
	callers.Store(stack, name)
	return name
}

func callerIn(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		name, own := strings.CutPrefix(frame.Function, "addon-operator/")
		if own && !strings.HasPrefix(name, "store.") && !strings.HasPrefix(name, "e2e/") && name != "workflow.(*Engine).update" {
			return name
		}
		if !more {
			return "unknown"
		}
	}
}
