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

// ErrTimeout means that a run was stopped because it took longer than its timeout.
var ErrTimeout = errors.New("timed out")

// stopGrace is the default time between SIGTERM and SIGKILL when a run is stopped because of its timeout, or because
// its context was canceled with a cause.
const stopGrace = 5 * time.Second

// stopCause returns the cause with which ctx was canceled, see [context.WithCancelCause]. If there is such a cause, the
// run must be stopped at once. stopCause returns nil if ctx has not ended, or has ended without a cause of its own, for
// example because the operator stops.
func stopCause(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return nil
	default:
		return cause
	}
}

// ErrInterrupted means that a run was not started, or was signalled, because its context ended without a cause of its
// own, for example because the operator stops. The hook has not failed. If the hook was started, its effects are
// unknown.
var ErrInterrupted = errors.New("interrupted")

// StartError means that a hook was not started. So the hook has not failed, and has had no effect. Possible reasons are
// a full disk, too many open files, and a file that is not executable.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// ExitError means that a process has failed, and that the operator has not stopped it. The output files of a failed
// hook are not read.
type ExitError struct {
	// Code is the exit status, or -1 if a signal ended the process.
	Code int
	// State says how the process ended, such as "exit status 3" or "signal: killed".
	State string
	// Said is the end of what the process has written to stderr, up to 4 KiB, without likely secrets. If an `enabled`
	// script has written nothing to stderr, Said is the end of its file MODULE_ENABLED_REASON. If the script has not
	// written this file either, Said is the end of its stdout.
	Said string
}

// Error returns State, followed by Said if it is not empty.
func (e *ExitError) Error() string {
	if e.Said == "" {
		return e.State
	}
	return e.State + ": " + e.Said
}

// Usage has the resources that a process has used, together with the child processes for which it has waited.
type Usage struct {
	User, System time.Duration
	// Took is the duration of the process, measured with [Options.Clock]. It is 0 if the runner has no clock.
	Took time.Duration
	// MaxRSS is the maximum resident memory in bytes. Until a new process has executed its program with execve, Linux
	// counts the memory of the operator, which has started it. So MaxRSS is at least the resident memory of the
	// operator at the start of the process.
	MaxRSS int64
}

// program is one process to run.
type program struct {
	file           File
	args           []string
	env            []string // added to the environment of the runner; replaces variables with the same names
	stdout, stderr io.Writer
	awaited        bool          // see [Run.Awaited]
	timeout        time.Duration // zero means the timeout of the runner, which can be zero, too
	started        func()        // may be nil
}

// ending says how a process has ended.
type ending struct {
	state     *os.ProcessState
	signalled bool  // whether the runner has sent a signal to the process
	cause     error // why the runner has sent a signal; nil if it has sent none, or if the operator stops
	took      time.Duration
}

// execute runs p and waits until it has ended. When execute returns, the whole output of p has been written to
// p.stdout and p.stderr. If child processes of p still run, execute waits for their output for at most
// [Options.Drain].
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
	defer r.starter.ended()

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
	// Reap the process only here. As long as it is a zombie, no other process can get its process ID or the ID of its
	// process group.
	state, err := process.Wait()
	if err != nil {
		return ending{}, err
	}
	if signalled || !state.Success() {
		// Kill the process group: the program may run again, and by then all processes of this attempt must have ended.
		// As long as the group has processes, its ID stays in use. If the group is empty, its ID has been free only for
		// microseconds, so no other group has it yet.
		_ = unix.Kill(-process.Pid, unix.SIGKILL)
	}
	end := ending{state: state, signalled: signalled, took: took}
	if signalled {
		end.cause = stopCause(ctx)
	}
	return end, nil
}

// patience returns how long after the end of ctx the process p gets SIGTERM, and how long after the end of ctx it gets
// SIGKILL.
func (r *Runner) patience(ctx context.Context, p program) (term, kill time.Duration) {
	switch {
	case p.awaited:
		return 0, time.Second
	case stopCause(ctx) != nil:
		return 0, r.stopGrace
	}
	return r.termAfter, r.killAfter
}

// command returns the path of the program to execute, its arguments and its additional environment variables. The
// program is the file of p or, if the file has an interpreter, the interpreter with the file as its first argument.
func (p program) command() (path string, argv, env []string) {
	python := p.file.Interpreter
	if python == "" {
		return p.file.Path, append([]string{p.file.Path}, p.args...), p.env
	}
	home := "PYTHONHOME=" + filepath.Dir(filepath.Dir(python))
	return python, append([]string{python, p.file.Path}, p.args...), append(p.env, home)
}

// await waits until the process has ended, and reports whether await has sent it a signal. If ctx ends first, await
// sends SIGTERM and later SIGKILL to the process group, at the times that patience returns.
func (r *Runner) await(ctx context.Context, pid int, p program) (signalled bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// No other error than EINTR is possible, because the process is a child of the operator and is not reaped
		// before await returns.
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
		_ = unix.Kill(-pid, stage.signal) // fails only if the group has no processes
		signalled = true
	}
	<-ended
	return signalled
}

// release waits until pump has read both pipes to their end. If a child process of the hook keeps a pipe open, release
// waits at most for [Options.Drain]. Then it makes pump read the current content of the pipes, and returns.
func (r *Runner) release(pumped <-chan struct{}, pipes ...*os.File) {
	patience := time.NewTimer(r.drain)
	defer patience.Stop()
	select {
	case <-pumped:
		return
	case <-patience.C:
	}
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Unix(1, 0)) // a deadline in the past makes a blocked read return at once
	}
	<-pumped
}

// environment returns the variables of base and added. Variables in added replace variables of the
// same name in base.
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
		usage.MaxRSS = rusage.Maxrss << 10 // Maxrss is in KiB
	}
	return usage
}

// closeFile closes a file or an end of a pipe, and ignores the error.
func closeFile(file *os.File) { _ = file.Close() }
