package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// starter starts all processes from one goroutine that is locked to its OS thread. The reason is the parent-death
// signal: the kernel sends it to a process when the thread that has started the process ends. Any other thread of the
// operator may end while a hook runs.
type starter struct {
	requests  chan startRequest
	stop      chan struct{} // closed by close
	null      *os.File      // stdin of every process; closed after stop is closed
	stopped   sync.Once
	processes sync.WaitGroup // the started processes that have not ended yet
}

type startRequest struct {
	path    string
	argv    []string
	attr    *os.ProcAttr
	started chan<- startReply // capacity 1, so that the starter never blocks
}

type startReply struct {
	process *os.Process
	err     error
}

func newStarter() (*starter, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	s := &starter{requests: make(chan startRequest), stop: make(chan struct{}), null: null}
	go s.run()
	return s, nil
}

func (s *starter) run() {
	runtime.LockOSThread()
	// Keep the thread locked until all processes have ended. Otherwise another goroutine can get the thread and end
	// it, which kills the processes that were started from the thread.
	defer runtime.UnlockOSThread()
	defer s.processes.Wait()
	defer closeFile(s.null)
	for {
		select {
		case <-s.stop:
			return
		case r := <-s.requests:
			process, err := os.StartProcess(r.path, r.argv, r.attr)
			if err == nil {
				s.processes.Add(1)
			}
			r.started <- startReply{process: process, err: err}
		}
	}
}

// ended tells the starter s that one of its processes has ended. Call it once for each process that start has returned.
func (s *starter) ended() { s.processes.Done() }

func (s *starter) close() {
	s.stopped.Do(func() { close(s.stop) })
}

// start starts a process and returns when its program is executing. The process leads its own
// process group and is killed when the operator ends. The Files of attr are its stdout and stderr.
// The caller must call ended after the end of the process.
func (s *starter) start(ctx context.Context, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	attr.Files = append([]*os.File{s.null}, attr.Files...)
	attr.Sys = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan startReply, 1)
	if err := s.mayStart(ctx); err != nil { // checked before select, which may choose any case that is ready
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, s.mayStart(ctx)
	case <-s.stop:
		return nil, s.mayStart(ctx)
	case s.requests <- startRequest{path: path, argv: argv, attr: attr, started: started}:
	}
	reply := <-started
	if reply.err != nil {
		return nil, explainStart(path, reply.err)
	}
	return reply.process, nil
}

// mayStart returns the reason why no process may be started: s is closed, or ctx has ended. If there is no reason, it
// returns nil.
func (s *starter) mayStart(ctx context.Context) error {
	select {
	case <-s.stop:
		return errors.New("not started: the runner is closed")
	default:
	}
	if cause := stopCause(ctx); cause != nil && ctx.Err() != nil {
		return fmt.Errorf("%w before it was started", cause)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w before it was started", ErrInterrupted)
	}
	return nil
}

// explainStart adds the usual cause to err, the error of the kernel for a program that cannot be started.
func explainStart(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: the file is neither a program nor a script that begins with #! and an interpreter", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: the file or its interpreter is not executable", err)
	case errors.Is(err, syscall.ENOENT):
		if _, statErr := os.Stat(path); statErr == nil {
			return fmt.Errorf("%w: the interpreter in its #! line is missing, or the line ends in a carriage return", err)
		}
	}
	return err
}
