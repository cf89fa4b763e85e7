package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"addon-operator/internal/failpoint"
)

// ErrTimeout is in the error of a run that took longer than its timeout and was ended.
var ErrTimeout = errors.New("timed out")

// stopGrace is the time between SIGTERM and SIGKILL for a run that is ended before its time: by its timeout, or by the
// cause of its context.
const stopGrace = 5 * time.Second

// stopCause returns the cause for which a run is ended at once: a cause that was given to its context, and not that the
// program stops. It is nil where there is none.
func stopCause(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return nil
	default:
		return cause
	}
}

// ErrInterrupted is in the error of a run that was not started, or was signalled, because its context ended. Such a run
// has not failed: nothing is known of what it did, and it is to run again.
var ErrInterrupted = errors.New("interrupted")

// ExitError is the error of a process that ended by itself and not well. Its output files were not read.
type ExitError struct {
	// Code is the exit status, -1 if a signal ended it that was none of ours.
	Code int
	// State is how it ended, in the words of the system: "exit status 3", "signal: killed".
	State string
	// Said is the end of what it wrote to stderr, at most 4 KiB. For an `enabled` script that wrote nothing there it is
	// its reason, or the end of its stdout.
	Said string
}

// Error returns how the process ended, and what it said.
func (e *ExitError) Error() string {
	if e.Said == "" {
		return e.State
	}
	return e.State + ": " + e.Said
}

// Usage is what a process and those it waited for took.
type Usage struct {
	User, System time.Duration
	// Took is the time from its start to its end by the clock; 0 where the runner has none.
	Took time.Duration
	// MaxRSS in bytes. Linux counts the memory of the starting program until the start is done, so it is never below
	// what this program had resident then.
	MaxRSS int64
}

// program is one process to be run to its end.
type program struct {
	file           File
	args           []string
	env            []string // added to the runner's, and stronger
	stdout, stderr io.Writer
	awaited        bool
	timeout        time.Duration // zero is the runner's
	started        func()        // nil is no call
}

// ending is how a process ended.
type ending struct {
	state     *os.ProcessState
	signalled bool  // by this program
	cause     error // of the signal, nil where this program stops
	took      time.Duration
}

// execute runs p until it ends. Its whole output has been written to its writers then; what processes it left behind
// still write is waited for as long as the runner's Drain says.
func (r *Runner) execute(ctx context.Context, p program) (ending, error) {
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return ending{}, err
	}
	defer closeFile(outRead)
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		closeFile(outWrite)
		return ending{}, err
	}
	defer closeFile(errRead)

	if limit := orDefault(p.timeout, r.timeout); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: it ran longer than %s", ErrTimeout, limit))
		defer cancel()
	}
	path, argv, env := p.command()
	dir := filepath.Dir(p.file.Path)
	began := r.clock()
	process, err := r.starter.start(ctx, path, argv, &os.ProcAttr{
		Dir:   dir,
		Env:   environment(r.env, append(env, "PWD="+dir)),
		Files: []*os.File{outWrite, errWrite},
	})
	closeFile(outWrite)
	closeFile(errWrite)
	if err != nil {
		return ending{}, err
	}

	failpoint.Reach("hook", "started")
	if p.started != nil {
		p.started()
	}
	pumped := make(chan struct{})
	go func() {
		var both sync.WaitGroup
		both.Go(func() { pump(outRead, p.stdout) })
		pump(errRead, p.stderr)
		both.Wait()
		close(pumped)
	}()
	signalled := r.await(ctx, process.Pid, p)
	failpoint.Reach("hook", "ended")
	took := r.clock().Sub(began)
	r.release(pumped, outRead, errRead)
	// Not reaped until here: as long as it is a zombie its number, and that of its group, mean no other process.
	state, err := process.Wait()
	if err != nil {
		return ending{}, err
	}
	if signalled || !state.Success() {
		// It will run again, and nothing of this attempt may work on beside the next one. Its number has been free for
		// microseconds only, and stays taken while its group has processes.
		_ = unix.Kill(-process.Pid, unix.SIGKILL)
	}
	end := ending{state: state, signalled: signalled, took: took}
	if signalled {
		end.cause = stopCause(ctx)
	}
	return end, nil
}

// patience returns when, from the end of its context, a process is signalled, and when it is killed.
func (r *Runner) patience(ctx context.Context, p program) (term, kill time.Duration) {
	switch {
	case p.awaited:
		return 0, time.Second
	case stopCause(ctx) != nil:
		return 0, r.stopGrace
	}
	return r.termAfter, r.killAfter
}

// command returns what is executed for a file: it, or the python of its virtual environment with it as argument.
func (p program) command() (path string, argv, env []string) {
	python := p.file.Interpreter
	if python == "" {
		return p.file.Path, append([]string{p.file.Path}, p.args...), p.env
	}
	home := "PYTHONHOME=" + filepath.Dir(filepath.Dir(python))
	return python, append([]string{python, p.file.Path}, p.args...), append(p.env, home)
}

// await returns when the process has ended, and whether it was signalled. When ctx is done it has some
// patience to end by itself; then its group gets SIGTERM, and later SIGKILL.
func (r *Runner) await(ctx context.Context, pid int, p program) (signalled bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// An error other than EINTR cannot be: it is our child and is reaped after this only.
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	select {
	case <-ended:
		return false
	case <-ctx.Done():
	}
	term, kill := r.patience(ctx, p)
	for _, stage := range []struct {
		after  time.Duration
		signal unix.Signal
	}{{term, unix.SIGTERM}, {kill - term, unix.SIGKILL}} {
		grace := time.NewTimer(stage.after)
		select {
		case <-ended:
			grace.Stop()
			return signalled
		case <-grace.C:
		}
		_ = unix.Kill(-pid, stage.signal) // it can only be gone
		signalled = true
	}
	<-ended
	return signalled
}

// release waits until both pipes are read to their end. Where a process left behind holds them it takes no longer than
// Drain, and what is in the pipes then is still read.
func (r *Runner) release(pumped <-chan struct{}, pipes ...*os.File) {
	patience := time.NewTimer(r.drain)
	defer patience.Stop()
	select {
	case <-pumped:
		return
	case <-patience.C:
	}
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Unix(1, 0)) // long ago: a waiting read returns at once
	}
	<-pumped
}

// environment returns base with added, which replace variables of the same name.
func environment(base, added []string) []string {
	names := make(map[string]bool, len(added))
	for _, variable := range added {
		name, _, _ := strings.Cut(variable, "=")
		names[name] = true
	}
	env := make([]string, 0, len(base)+len(added))
	for _, variable := range base {
		if name, _, _ := strings.Cut(variable, "="); !names[name] {
			env = append(env, variable)
		}
	}
	return append(env, added...)
}

func usageOf(state *os.ProcessState) Usage {
	usage := Usage{User: state.UserTime(), System: state.SystemTime()}
	if rusage, ok := state.SysUsage().(*syscall.Rusage); ok && rusage != nil {
		usage.MaxRSS = rusage.Maxrss << 10 // it comes in KiB
	}
	return usage
}

// closeFile closes a pipe's end, of which nothing can be lost.
func closeFile(file *os.File) { _ = file.Close() }
