package simulate_test

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// A scheduler decides who goes on. Each goroutine of the operator stops at a gate before it does what
// others can see: a transaction, a commit, a request, the delivery of watched changes, the start and the
// end of a hook. When all goroutines have stopped, the scheduler opens one gate, chosen by the seed. When
// no goroutine is at a gate, time passes.
type scheduler struct {
	chance  *rand.Rand // used by the one goroutine that runs
	arrived chan struct{}

	mu      sync.Mutex
	waiting []*gate
}

// A gate is a place where a goroutine waits for the scheduler.
type gate struct {
	process *process
	name    string
	who     uint64 // goroutines that were started earlier have smaller numbers; 0 if the name is unique
	open    chan struct{}
}

func newScheduler(seed uint64) *scheduler {
	return &scheduler{
		chance:  rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // it is to be repeated
		arrived: make(chan struct{}, 1),
	}
}

// pass returns when the scheduler lets the caller go on. It returns at once if the process p was killed.
func (s *scheduler) pass(p *process, name string) {
	g := &gate{process: p, name: name, open: make(chan struct{})}
	if !isUnique(name) {
		g.who = goroutine()
	}
	s.mu.Lock()
	if p.dead.Load() {
		s.mu.Unlock()
		return
	}
	s.waiting = append(s.waiting, g)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	<-g.open
}

// release opens all gates of p, which was killed.
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

// next opens one gate when all goroutines have stopped, and returns its name. It returns "" if nobody waits.
func (s *scheduler) next() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return ""
	}
	slices.SortFunc(s.waiting, func(a, b *gate) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.who, b.who)) })
	i := s.chance.IntN(len(s.waiting))
	g := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	close(g.open)
	return g.name
}

// idle lets time pass until a goroutine is at a gate, but no longer than until then.
func (s *scheduler) idle(until time.Time) {
	alarm := time.NewTimer(time.Until(until))
	defer alarm.Stop()
	select {
	case <-s.arrived:
	case <-alarm.C:
	}
}

// below returns a number from 0 to n-1, drawn by the goroutine that the scheduler lets go on.
func (s *scheduler) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chance.IntN(n)
}

// isUnique reports whether at most one goroutine at a time waits at the gate of this name.
func isUnique(name string) bool {
	kind, of, _ := strings.Cut(name, " ")
	return kind == "commit" || kind == "start" || kind == "end" || strings.HasPrefix(of, "triggers.(*Schedule)")
}

// goroutine returns the number of the calling goroutine.
func goroutine() uint64 {
	var text [64]byte
	_, number, _ := bytes.Cut(text[:runtime.Stack(text[:], false)], []byte(" "))
	digits, _, _ := bytes.Cut(number, []byte(" "))
	n, _ := strconv.ParseUint(string(digits), 10, 64)
	return n
}

// caller names the function outside of package store that called an Update.
func caller() string {
	var places [24]uintptr
	frames := runtime.CallersFrames(places[:runtime.Callers(2, places[:])])
	for {
		frame, more := frames.Next()
		name := frame.Function
		if strings.HasPrefix(name, "addon-operator/") && !strings.HasPrefix(name, "addon-operator/store.") && !strings.HasPrefix(name, "addon-operator/e2e/") {
			return strings.TrimPrefix(name, "addon-operator/")
		}
		if !more {
			return "unknown"
		}
	}
}
