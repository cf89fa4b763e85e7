package crashtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A plane is the Kubernetes API of one round. A plane contains no objects of an earlier round.
type plane interface {
	// kubeconfig returns the path of a kubeconfig file for the plane.
	kubeconfig() string
	// release ends the plane, or restores its objects for the next round.
	release(ctx context.Context) error
}

// planes provides a plane for each round.
type planes interface {
	acquire(ctx context.Context, dir string) (plane, error)
}

// localPlanes starts a control plane program for each round: e2e/controlplane, or a program with
// the same flags.
type localPlanes struct{ program string }

// localPlane is a running control plane program.
type localPlane struct {
	dir    string
	cmd    *exec.Cmd
	errors bytes.Buffer // standard error of the program; read it only after ended is closed
	ended  chan struct{}
}

// acquire starts a control plane with its data in dir, and returns when the control plane serves
// requests. The control plane runs until release is called, or until this process ends.
func (l localPlanes) acquire(ctx context.Context, dir string) (plane, error) {
	ready, announce, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	p := &localPlane{dir: filepath.Join(dir, "controlplane"), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), l.program, "--dir", p.dir, "--ephemeral", "--with-parent", "--ready-fd", "3")
	p.cmd.ExtraFiles, p.cmd.Stderr = []*os.File{announce}, &p.errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C reaches only this process, which then ends the program
	err = p.cmd.Start()
	_ = announce.Close() // the program has its own descriptor of the pipe
	if err != nil {
		return nil, fmt.Errorf("start the control plane: %w; name the program with --control-plane", err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result
		close(p.ended)
	}()
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	line, err := io.ReadAll(ready)
	if err == nil && len(line) > 0 {
		return p, nil
	}
	p.end()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	printed := strings.TrimSpace(p.errors.String())
	if printed == "" {
		printed = "it printed nothing on stderr"
	}
	return nil, errors.Join(err, fmt.Errorf("control plane %s ended before it served: %s: %s", l.program, p.cmd.ProcessState, printed))
}

func (p *localPlane) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// release stops the program and removes its directory.
func (p *localPlane) release(context.Context) error {
	p.end()
	return os.RemoveAll(p.dir)
}

// end stops the program and waits for its end.
func (p *localPlane) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	kill := time.AfterFunc(stopWithin, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.ended
}
