package crash_test

import (
	"errors"
	"sync"
	"testing"

	"addon-operator/e2e/operator"
)

// A supervisor restarts the operator after each kill, as the kubelet does.
type supervisor struct {
	w       *environment
	stopped chan struct{} // closed when the supervisor must not start a further process
	done    chan struct{} // closed when the supervisor has given up or was stopped

	mu      sync.Mutex
	p       *operator.Process // guarded by mu
	ours    bool              // whether killUnless has killed the process p; guarded by mu
	byHook  int               // number of killed processes that killUnless has not killed, so crashHook has; guarded by mu
	failure error             // guarded by mu
}

// supervise starts the operator of w, and restarts it until stop is called or the test ends.
func supervise(t *testing.T, w *environment) *supervisor {
	t.Helper()
	k := &supervisor{w: w, stopped: make(chan struct{}), done: make(chan struct{})}
	var err error
	if k.p, err = k.start(); err != nil {
		t.Fatal(err)
	}
	go k.run()
	t.Cleanup(func() {
		k.end()
		k.now().Kill()
	})
	return k
}

func (k *supervisor) start() (*operator.Process, error) {
	return k.w.operator.Start("RECORD=" + k.w.record)
}

func (k *supervisor) run() {
	defer close(k.done)
	for {
		select {
		case <-k.stopped:
			return
		case <-k.now().Ended():
		}
		if !k.restart() {
			return
		}
	}
}

// restart starts another process if the last one was killed. restart returns false if the last process ended in
// another way, or if the start fails.
func (k *supervisor) restart() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.p.Killed() {
		k.failure = errors.New("the operator ended by itself")
		return false
	}
	killed.add(k.w.test)
	if !k.ours {
		k.byHook++
	}
	k.ours = false
	p, err := k.start()
	if err != nil {
		k.failure = err
		return false
	}
	k.p = p
	return true
}

// now returns the process that was started last.
func (k *supervisor) now() *operator.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.p
}

// err returns the reason why the supervisor has given up restarting the operator. err returns nil if it has not given
// up.
func (k *supervisor) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// deaths returns the number of operator processes that the hook crashHook has killed.
func (k *supervisor) deaths() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byHook
}

// killUnless kills the operator and returns true. It also returns true if the process had already ended. But if the
// hook crashHook has already killed the given number of processes or more, killUnless does nothing and returns false.
func (k *supervisor) killUnless(deaths int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byHook >= deaths {
		return false
	}
	select {
	case <-k.p.Ended(): // the hook has just killed the process
	default:
		k.ours = true
		k.p.Kill()
	}
	return true
}

// end makes the supervisor start no further process. The last process may still run afterwards.
func (k *supervisor) end() {
	select {
	case <-k.stopped:
	default:
		close(k.stopped)
	}
	<-k.done
}

// stop ends the restarts and stops the operator. stop returns an error if a process was neither killed nor stopped
// cleanly.
func (k *supervisor) stop() error {
	k.end()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure != nil {
		return k.failure
	}
	return k.p.Stop()
}
