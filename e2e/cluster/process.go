package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// stopWithin is the maximum time for the shutdown of a control plane, which usually takes one second.
const stopWithin = 5 * time.Minute

// process is a running control plane.
type process struct {
	dir    string
	cmd    *exec.Cmd
	killed atomic.Bool   // set by kill
	done   chan struct{} // closed when the process has ended; then the fields err and said are complete
	err    error
	said   bytes.Buffer // standard error
}

// startProcess runs program, a control plane, with its data in dir, and waits until the API server is ready. The
// program has its own process group, so that Ctrl-C ends the tests before the cluster. The program stops when this
// process ends.
func startProcess(program, dir string, flags ...string) (*process, error) {
	ready, announce, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	p := &process{dir: dir, done: make(chan struct{})}
	p.cmd = exec.Command(program, append(flags, "--dir", dir, "--with-parent", "--ready-fd", "3")...)
	p.cmd.ExtraFiles = []*os.File{announce}
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = p.cmd.Start()
	// The program has its own copy of announce. While this process has its copy open, reads never reach the end of the
	// pipe.
	announce.Close()
	if err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()

	line, err := io.ReadAll(ready)
	if err == nil && len(line) > 0 {
		return p, nil
	}
	p.kill()
	return nil, errors.Join(err, errors.New(p.story()))
}

func (p *process) file(name string) string { return filepath.Join(p.dir, name) }

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop stops the process. stop returns an error if the process had to be killed or ended with an error, except after a
// call of kill.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		p.kill()
		return fmt.Errorf("the control plane in %s did not stop within %s and was killed", p.dir, stopWithin)
	}
	if p.err != nil && !p.killed.Load() {
		return fmt.Errorf("the control plane in %s did not end well: %w\n%s", p.dir, p.err, p.story())
	}
	return nil
}

// kill sends SIGKILL to the process and waits until it has ended.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // fails only if the process has ended
	<-p.done
}

// story returns the standard error of an ended process and the last lines of its log file.
func (p *process) story() string {
	const lines = 15
	log, err := os.ReadFile(p.file("log"))
	if err != nil {
		return p.said.String()
	}
	tail := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	tail = tail[max(0, len(tail)-lines):]
	return fmt.Sprintf("%send of %s:\n%s", p.said.String(), p.file("log"), bytes.Join(tail, []byte("\n")))
}
