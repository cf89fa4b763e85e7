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

// ErrTimeout is wrapped by the error of a run that was stopped after its timeout.
var ErrTimeout = errors.New("timed out")

// stopGrace is the default time between SIGTERM and SIGKILL for a run that timed out or was
// canceled with a cause.
const stopGrace = 5 * time.Second

// stopCause returns the cause for which a run must be stopped at once: the cause set on its
// context. It is nil if there is none, also when the operator stops.
func stopCause(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return nil
	default:
		return cause
	}
}

// ErrInterrupted is wrapped by the error of a run that was not started, or was signalled, because
// its context ended. Such a run has not failed: its effects are unknown, and it must run again.
var ErrInterrupted = errors.New("interrupted")

// ExitError is the error of a process that failed and was not stopped by the operator. Its output
// files are not read.
type ExitError struct {
	// Code is the exit status, or -1 if a signal from elsewhere ended the process.
	Code int
	// State describes the end as the operating system does: "exit status 3", "signal: killed".
	State string
	// Said is the tail of its stderr, up to 4 KiB. If the stderr of an `enabled` script is empty, it
	// is the reason, or the tail of its stdout.
	Said string
}

// Error returns State and Said.
func (e *ExitError) Error() string {
	if e.Said == "" {
		return e.State
	}
	return e.State + ": " + e.Said
}

// Usage is the resource usage of a process and of the child processes it waited for.
type Usage struct {
	User, System time.Duration
	// Took is the wall-clock duration; 0 if the runner has no clock.
	Took time.Duration
	// MaxRSS is in bytes. Linux includes the memory of the starting program until execve is done,
	// so it is at least the resident memory of the operator at that time.
	MaxRSS int64
}

// program is one process to run.
type program struct {
	file           File
	args           []string
	env            []string // added to the runner's environment, with precedence
	stdout, stderr io.Writer
	awaited        bool
	timeout        time.Duration // zero is the runner's timeout
	started        func()        // may be nil
}

// ending describes the end of a process.
type ending struct {
	state     *os.ProcessState
	signalled bool  // by this runner
	cause     error // of the signal; nil if the operator stops
	took      time.Duration
}

// execute runs p until it ends. When it returns, the whole output of p is in its writers. It waits
// at most the runner's Drain for the output of processes that p left behind.
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
	// The process is reaped only now: while it is a zombie, no other process can get its id or that
	// of its group.
	state, err := process.Wait()
	if err != nil {
		return ending{}, err
	}
	if signalled || !state.Success() {
		// The program will run again, and no process of this attempt may run at the same time as
		// the next one. The id was free only for microseconds, and stays in use while the group has
		// processes.
		_ = unix.Kill(-process.Pid, unix.SIGKILL)
	}
	end := ending{state: state, signalled: signalled, took: took}
	if signalled {
		end.cause = stopCause(ctx)
	}
	return end, nil
}

// patience returns the times from the end of the context to SIGTERM and to SIGKILL.
func (r *Runner) patience(ctx context.Context, p program) (term, kill time.Duration) {
	switch {
	case p.awaited:
		return 0, time.Second
	case stopCause(ctx) != nil:
		return 0, r.stopGrace
	}
	return r.termAfter, r.killAfter
}

// command returns the command line for a file: the file itself, or the python of its virtual
// environment with the file as argument.
func (p program) command() (path string, argv, env []string) {
	python := p.file.Interpreter
	if python == "" {
		return p.file.Path, append([]string{p.file.Path}, p.args...), p.env
	}
	home := "PYTHONHOME=" + filepath.Dir(filepath.Dir(python))
	return python, append([]string{python, p.file.Path}, p.args...), append(p.env, home)
}

// await returns when the process has ended, and whether it was signalled. When ctx ends, the
// process first gets some time to end by itself; then its group gets SIGTERM, and later SIGKILL.
func (r *Runner) await(ctx context.Context, pid int, p program) (signalled bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// EINTR is the only possible error: the process is our child and is reaped only after this.
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
		_ = unix.Kill(-pid, stage.signal) // fails only if it is gone
		signalled = true
	}
	<-ended
	return signalled
}

// release waits until both pipes are read to their end. If a process left behind keeps them open,
// it waits at most Drain; the content at that time is still read.
func (r *Runner) release(pumped <-chan struct{}, pipes ...*os.File) {
	patience := time.NewTimer(r.drain)
	defer patience.Stop()
	select {
	case <-pumped:
		return
	case <-patience.C:
	}
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Unix(1, 0)) // in the past: a blocked read returns at once
	}
	<-pumped
}

// environment returns base and added. Variables in added replace variables of the same name.
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

// closeFile closes the end of a pipe; its error does not matter.
func closeFile(file *os.File) { _ = file.Close() }
