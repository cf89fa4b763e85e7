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
	stopped chan struct{} // closed to stop the restarts
	done    chan struct{} // closed after the last process

	mu      sync.Mutex
	p       *operator.Process // guarded by mu
	ours    bool              // whether killUnless has killed the process p; guarded by mu
	byHook  int               // number of processes that the hook has killed; guarded by mu
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

// restart starts another process if the last one was killed.
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

// now returns the last started process.
func (k *supervisor) now() *operator.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.p
}

// err returns the reason why the operator is not restarted any more; nil if the supervisor still
// restarts it.
func (k *supervisor) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// deaths returns the number of processes that the hook has killed.
func (k *supervisor) deaths() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byHook
}

// killUnless kills the operator if the hook has killed fewer than deaths processes, and reports
// whether it has killed the operator.
func (k *supervisor) killUnless(deaths int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byHook >= deaths {
		return false
	}
	select {
	case <-k.p.Ended(): // the process was killed already
	default:
		k.ours = true
		k.p.Kill()
	}
	return true
}

// end makes the supervisor start no further process.
func (k *supervisor) end() {
	select {
	case <-k.stopped:
	default:
		close(k.stopped)
	}
	<-k.done
}

// stop stops the operator. It returns an error if a process did not end as expected.
func (k *supervisor) stop() error {
	k.end()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure != nil {
		return k.failure
	}
	return k.p.Stop()
}
