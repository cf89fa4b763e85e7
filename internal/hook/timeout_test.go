package hook_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"addon-operator/internal/hook"
)

// hanging returns the file of a hook that never ends by itself, and the path of another file, pids. The hook first
// writes its own process ID and that of a child process to pids. The child process ignores SIGTERM. If deaf is true,
// the hook ignores SIGTERM too.
func hanging(t *testing.T, deaf bool) (file hook.File, pids string) {
	t.Helper()
	pids = filepath.Join(t.TempDir(), "pids")
	trap := ""
	if deaf {
		trap = "trap '' TERM\n"
	}
	path := filepath.Join(t.TempDir(), "hook.sh")
	text := "#!/bin/bash\n" + trap + "(trap '' TERM; exec sleep 1000) &\necho $$ $! > " + pids + ".new && mv " + pids + ".new " + pids + "\nwait\nwhile :; do sleep 1000; done\n"
	syscall.ForkLock.RLock() // a process that is forked now would keep the kernel from executing the file
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return hook.File{Name: "hook.sh", Path: path}, pids
}

func TestRunThatTakesLongerThanItsTimeoutIsEndedWithItsProcessGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		ofRun      time.Duration
		ofRunner   time.Duration
		deaf       bool
		atLeast    time.Duration
		limitNamed string
	}{
		{"by its own timeout", 4 * time.Second, time.Hour, false, 0, "4s"},
		{"by the default of the runner", 0, 4 * time.Second, false, 0, "4s"},
		{"by SIGKILL where it ignores SIGTERM", 4 * time.Second, 0, true, 4400 * time.Millisecond, "4s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := hook.NewRunner(hook.Options{TempDir: t.TempDir(), Timeout: c.ofRunner, StopGrace: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			file, pids := hanging(t, c.deaf)
			began := time.Now()
			_, err = r.Run(context.Background(), hook.Run{File: file, Timeout: c.ofRun})
			if !errors.Is(err, hook.ErrTimeout) || errors.Is(err, hook.ErrInterrupted) || !strings.Contains(err.Error(), "longer than "+c.limitNamed) {
				t.Errorf("the error is %v", err)
			}
			if took := time.Since(began); took < c.atLeast || took > 90*time.Second {
				t.Errorf("it took %s", took)
			}
			awaitGone(t, pids)
		})
	}
}

func TestRunWhoseContextEndsWithACauseIsEndedAtOnceAndFailsWithTheCause(t *testing.T) {
	r, err := hook.NewRunner(hook.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file, pids := hanging(t, false)
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("canceled by mia")
	go func() {
		for {
			if _, err := os.Stat(pids); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel(cause)
	}()
	began := time.Now()
	_, err = r.Run(ctx, hook.Run{File: file})
	if !errors.Is(err, cause) || errors.Is(err, hook.ErrInterrupted) {
		t.Errorf("the error is %v", err)
	}
	if took := time.Since(began); took > 12*time.Second { // the runner waits 15 s before SIGTERM only if the operator stops
		t.Errorf("it took %s", took)
	}
	awaitGone(t, pids)
}

// awaitGone waits until the processes whose IDs are in the file pids have ended. If one does not end soon, the test
// fails.
func awaitGone(t *testing.T, pids string) {
	t.Helper()
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(text)) {
		waitGone(t, pid)
	}
}
