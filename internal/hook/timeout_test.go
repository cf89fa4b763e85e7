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
	syscall.ForkLock.RLock() // a process that is forked during the write inherits the open file, and the kernel executes no file that is open for writing
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return hook.File{Name: "hook.sh", Path: path}, pids
}

func TestRunThatTakesLongerThanItsTimeoutIsEndedWithItsProcessGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		timeouts func(limit time.Duration) (ofRun, ofRunner time.Duration)
		deaf     bool
	}{
		{"by its own timeout", func(limit time.Duration) (ofRun, ofRunner time.Duration) { return limit, time.Hour }, false},
		{"by the default of the runner", func(limit time.Duration) (ofRun, ofRunner time.Duration) { return 0, limit }, false},
		{"by SIGKILL where it ignores SIGTERM", func(limit time.Duration) (ofRun, ofRunner time.Duration) { return limit, 0 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limit := 4 * time.Second
			for !endsAtItsTimeout(t, limit, c.timeouts, c.deaf) {
				limit *= 2
			}
		})
	}
}

// endsAtItsTimeout runs a hook that never ends by itself, and checks how the runner ends it. The argument limit is the
// timeout. If the timeout passes before the hook is ready and limit is less than a minute, endsAtItsTimeout checks
// nothing and returns false, because the machine is slow.
func endsAtItsTimeout(t *testing.T, limit time.Duration, timeouts func(limit time.Duration) (ofRun, ofRunner time.Duration), deaf bool) bool {
	t.Helper()
	ofRun, ofRunner := timeouts(limit)
	r, err := hook.NewRunner(hook.Options{TempDir: t.TempDir(), Timeout: ofRunner, StopGrace: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file, pids := hanging(t, deaf)
	began := time.Now()
	_, err = r.Run(context.Background(), hook.Run{File: file, Timeouts: []time.Duration{ofRun}})
	took := time.Since(began)
	if _, missing := os.Stat(pids); missing != nil && limit < time.Minute {
		return false
	}
	if !errors.Is(err, hook.ErrTimeout) || errors.Is(err, hook.ErrInterrupted) || !strings.Contains(err.Error(), "longer than "+limit.String()) {
		t.Errorf("the error is %v", err)
	}
	if took < limit || deaf && took < limit+400*time.Millisecond || took > limit+90*time.Second {
		t.Errorf("it took %s", took)
	}
	awaitGone(t, pids)
	return true
}

func TestRunWhoseContextEndsWithACauseIsEndedAtOnceAndFailsWithTheCause(t *testing.T) {
	r, err := hook.NewRunner(hook.Options{TempDir: t.TempDir(), TermAfter: 5 * time.Minute, KillAfter: 6 * time.Minute})
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
	if took := time.Since(began); took > 90*time.Second { // the runner waits 5 minutes before SIGTERM only if the operator stops
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
