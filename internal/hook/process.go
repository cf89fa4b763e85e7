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

// stopCause returns the cause of ctx if a run must be stopped at once because of it. It returns nil if ctx has not
// ended, or if its cause is context.Canceled or context.DeadlineExceeded, as when the operator stops.
func stopCause(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return nil
	default:
		return cause
	}
}

// ErrInterrupted means that a run was not started, or was signalled, because its context ended. The hook has not
// failed: its effects are unknown, and it must run again.
var ErrInterrupted = errors.New("interrupted")

// ExitError means that a process has failed, and that the operator has not stopped it. The output files of a failed
// hook are not read.
type ExitError struct {
	// Code is the exit status, or -1 if a signal ended the process.
	Code int
	// State says how the process ended, such as "exit status 3" or "signal: killed".
	State string
	// Said is the end of the stderr of the process, up to 4 KiB. If the stderr of an `enabled`
	// script is empty, Said is the reason that the script wrote or, without a reason, the end of
	// its stdout.
	Said string
}

// Error returns State and Said.
func (e *ExitError) Error() string {
	if e.Said == "" {
		return e.State
	}
	return e.State + ": " + e.Said
}

// Usage is the resource usage of a process and of the child processes for which it waited.
type Usage struct {
	User, System time.Duration
	// Took is the wall-clock duration; 0 if the runner has no clock.
	Took time.Duration
	// MaxRSS is the maximum resident memory in bytes. Until execve is done, Linux counts the memory
	// of the program that starts the process. So MaxRSS is at least the resident memory of the
	// operator at that time.
	MaxRSS int64
}

// program is one process to run.
type program struct {
	file           File
	args           []string
	env            []string // added to the runner's environment, with precedence
	stdout, stderr io.Writer
	awaited        bool
	timeout        time.Duration // zero means the runner's timeout
	started        func()        // may be nil
}

// ending describes the end of a process.
type ending struct {
	state     *os.ProcessState
	signalled bool  // this runner sent a signal
	cause     error // why the runner sent a signal; nil if the operator stops
	took      time.Duration
}

// execute runs p until it ends. When execute returns, the whole output of p has been written to its
// writers. If child processes of p still run, execute waits for their output at most for the Drain
// of the runner.
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
	// The process is reaped only here: while it is a zombie, no other process can get its process
	// ID or the ID of its group.
	state, err := process.Wait()
	if err != nil {
		return ending{}, err
	}
	if signalled || !state.Success() {
		// The program will run again, and no process of this attempt may run at the same time as
		// the next attempt. The ID of the group stays in use while the group has processes. If the
		// group is empty, its ID has been free only for microseconds, so no other group has it.
		_ = unix.Kill(-process.Pid, unix.SIGKILL)
	}
	end := ending{state: state, signalled: signalled, took: took}
	if signalled {
		end.cause = stopCause(ctx)
	}
	return end, nil
}

// patience returns the times from the end of ctx to SIGTERM and to SIGKILL.
func (r *Runner) patience(ctx context.Context, p program) (term, kill time.Duration) {
	switch {
	case p.awaited:
		return 0, time.Second
	case stopCause(ctx) != nil:
		return 0, r.stopGrace
	}
	return r.termAfter, r.killAfter
}

// command returns the path, the arguments and the environment of the process: the file itself or,
// if it has an interpreter, the interpreter with the file as argument.
func (p program) command() (path string, argv, env []string) {
	python := p.file.Interpreter
	if python == "" {
		return p.file.Path, append([]string{p.file.Path}, p.args...), p.env
	}
	home := "PYTHONHOME=" + filepath.Dir(filepath.Dir(python))
	return python, append([]string{python, p.file.Path}, p.args...), append(p.env, home)
}

// await waits until the process has ended, and reports whether it was signalled. After the end of
// ctx, await sends SIGTERM and then SIGKILL to the process group, each after the time that patience
// returns.
func (r *Runner) await(ctx context.Context, pid int, p program) (signalled bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// EINTR is the only possible error: the process is a child of the operator, and is reaped
		// only after await.
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

// release waits until both pipes are read to their end. If a child process of the hook keeps a pipe
// open, release waits at most for Drain, and then the content that is in the pipe is still read.
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

// closeFile closes the end of a pipe; its error does not matter.
func closeFile(file *os.File) { _ = file.Close() }
