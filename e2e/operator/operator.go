// Package operator builds the operator and runs it as a separate process, for tests and for the bench. An *environment*
// has the store, the modules and the namespace of the operator. A *process* is one run of the program in it.
package operator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// Environment has the files, the namespace and the settings of one operator. The processes of the operator use them one
// after another.
type Environment struct {
	// Program is the path of the program, as [Build] returns it.
	Program string
	// Dir is the directory for store.db, debug.socket, log and temporary files. Its path must be short, because the length
	// of a socket's path is limited.
	Dir string
	// Kubeconfig is the path of a kubeconfig for the cluster. Namespace is the namespace of the operator and its Helm
	// releases.
	Kubeconfig, Namespace string
	ModulesDir            string
	GlobalHooksDir        string
	// StoreDir is the directory of the store. If it is empty, the store is in Dir.
	StoreDir string
	// TempDir is the directory of temporary files. If it is empty, they are in the directory tmp in Dir.
	TempDir string
}

// Store returns the path of the store.
func (s Environment) Store() string { return filepath.Join(cmp.Or(s.StoreDir, s.Dir), "store.db") }

// Socket returns the path of the debug socket.
func (s Environment) Socket() string { return filepath.Join(s.Dir, "debug.socket") }

// Log returns the log of all processes.
func (s Environment) Log() string {
	b, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// EndOfLog returns the last 80 lines of the log, converted to the console format of zerolog, which is half as long as
// the JSON.
func (s Environment) EndOfLog() string {
	const most = 80
	lines := strings.SplitAfter(s.Log(), "\n")
	var text strings.Builder
	console := zerolog.ConsoleWriter{Out: &text, NoColor: true, TimeFormat: "15:04:05.000", FieldsExclude: []string{"logger"}}
	for _, line := range lines[max(0, len(lines)-most):] {
		if _, err := console.Write([]byte(line)); err != nil {
			text.WriteString(line) // not a line of the logger: a panic, or a line that a kill has cut off
		}
	}
	return text.String()
}

// Process is a running operator, or one that has ended.
type Process struct {
	// Started is the time at which the process was started.
	Started time.Time
	// Every is the pause between two requests of [Process.Ready], and between two checks of [Process.Until]; 0 means
	// 5 ms.
	Every time.Duration

	cmd     *exec.Cmd
	address string        // HOST:PORT of the operator's HTTP server
	done    chan struct{} // closed when the process has ended
}

// Start starts the operator with additional environment variables, each NAME=VALUE. The operator runs in its own
// process group, and is killed when this process ends.
func (s Environment) Start(env ...string) (*Process, error) {
	address, port, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy of the descriptor
	p := &Process{address: net.JoinHostPort(address, port), done: make(chan struct{})}
	p.cmd = exec.Command(s.Program, "start", "--kube-config", s.Kubeconfig, "--namespace", s.Namespace,
		"--store", s.Store(), "--debug-unix-socket", s.Socket(), "--tmp-dir", cmp.Or(s.TempDir, filepath.Join(s.Dir, "tmp")),
		"--modules-dir", s.ModulesDir, "--global-hooks-dir", s.GlobalHooksDir,
		"--prometheus-listen-address", address, "--prometheus-listen-port", port, "--log-type", "json")
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.Started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result
		close(p.done)
	}()
	return p, nil
}

// FreeAddress returns an address of the loopback interface, and a port that is free on this address. The address is
// random, so it is unlikely that another process opens the port before the caller.
func FreeAddress() (address, port string, err error) {
	address = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "", "", err
	}
	_, port, err = net.SplitHostPort(l.Addr().String())
	return address, port, errors.Join(err, l.Close())
}

// Pid returns the ID of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// URL returns the base URL of the operator's HTTP server.
func (p *Process) URL() string { return "http://" + p.address }

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Killed reports whether the process has ended by SIGKILL.
func (p *Process) Killed() bool {
	select {
	case <-p.done:
		status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	default:
		return false
	}
}

// Kill kills the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has ended
	<-p.done
}

// Stop sends SIGTERM and waits for the end of the process. Stop returns an error if the process does not exit with
// code 0 within a minute.
func (p *Process) Stop() error {
	const within = time.Minute
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-p.done:
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("the operator did not stop within %s and was killed", within)
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("the operator did not exit with code 0: %s", p.cmd.ProcessState)
	}
	return nil
}

// Ready waits until /readyz returns status 200: no module is pending, and the first converge of this process has ended
// or the start has nothing to converge. Ready returns an error if the process or ctx ends before that.
func (p *Process) Ready(ctx context.Context) error {
	url := p.URL() + "/readyz"
	return p.Until(ctx, "the first converge to end", func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, response.Body) // read to its end, so that the next request uses the same connection
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// Until calls the given function repeatedly until the function returns true. Until returns an error if the process or
// ctx ends before that. The error begins with "wait for" and the text in what.
func (p *Process) Until(ctx context.Context, what string, holds func() bool) error {
	every := cmp.Or(p.Every, 5*time.Millisecond)
	for !holds() {
		select {
		case <-p.done:
			return fmt.Errorf("wait for %s: the operator has ended: %s", what, p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-time.After(every):
		}
	}
	return nil
}

// PeakMemory returns the peak resident memory in bytes, as counted by the kernel (VmHWM).
func (p *Process) PeakMemory() (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid()), "status"))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, found := strings.CutPrefix(string(line), "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not report the peak memory of process %d", p.Pid())
}
