package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/e2e/cluster"
	programs "addon-operator/e2e/operator"
)

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"addon-operator": main})
}

// suite runs the tests, and then stops the cluster that the tests share.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	captureLogs(zerolog.Nop()) // must be called before the first Kubernetes client of a test logs a line
	return cluster.Run(s.m)
}

// readSettings returns the settings of the command "start" with these flags.
func readSettings(t *testing.T, flags ...string) settings.Settings {
	t.Helper()
	var s settings.Settings
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	f.SetNormalizeFunc(settings.ByAlias)
	read := settings.Declare(&s, f)
	if err := f.Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	return s
}

// A fixture is a directory with the files of an operator. The method start runs the operator in
// this process.
type fixture struct {
	t    *testing.T
	dir  string
	host string // address of the port for health and metrics
	port string
	log  syncedBuffer
	end  func() error
	// fails is whether the test expects that the operator ends with an error.
	fails bool
}

// newFixture returns a fixture with no modules and no hooks.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, dir: t.TempDir()}
	for _, dir := range []string{"modules", "global-hooks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// file writes an executable file into the directory of the operator.
func (s *fixture) file(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a process that is forked during the write inherits the open file, and the kernel executes no file that is open for writing
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // hooks are executed
		s.t.Fatal(err)
	}
}

func (s *fixture) path(name string) string { return filepath.Join(s.dir, name) }

// flags returns the flags with which the operator runs on the files of the fixture.
func (s *fixture) flags(kubeconfig, namespace string) []string {
	if s.port == "" {
		s.host, s.port = freeAddress(s.t)
	}
	return []string{
		"--modules-dir", s.path("modules"), "--global-hooks-dir", s.path("global-hooks"), "--tmp-dir", s.path("tmp"),
		"--store", s.path("store.db"), "--debug-unix-socket", s.path("socket"), "--kube-config", kubeconfig,
		"--namespace", namespace, "--prometheus-listen-address", s.host, "--prometheus-listen-port", s.port,
	}
}

// start runs an operator until the test ends or end is called.
func (s *fixture) start(kubeconfig, namespace string, more ...string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	config := readSettings(s.t, append(s.flags(kubeconfig, namespace), more...)...)
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = Run(ctx, config, &s.log)
	}()
	s.end = sync.OnceValue(func() error { cancel(); <-ended; return failed })
	s.t.Cleanup(func() {
		if err := s.end(); err != nil && !s.fails {
			s.t.Error(err)
		}
		if s.t.Failed() {
			s.t.Log(s.log.String())
		}
	})
	s.until("the operator serves", func() bool {
		select {
		case <-ended:
			s.t.Fatalf("the operator ended before it served: %v", failed)
		default:
		}
		return strings.HasPrefix(s.get("/healthz"), "ok")
	})
}

// url returns the URL of a path on the operator's port for health and metrics.
func (s *fixture) url(path string) string { return "http://" + net.JoinHostPort(s.host, s.port) + path }

// get returns the body of the operator's response for path; empty if the operator does not respond.
func (s *fixture) get(path string) string {
	r, err := http.Get(s.url(path))
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

// until waits until a condition is true. The test fails after a timeout.
func (s *fixture) until(what string, true func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("timed out waiting until %s; the log:\n%s", what, s.log.String())
		}
	}
}

func (s *fixture) converged() {
	s.t.Helper()
	s.until("the operator has converged", func() bool { return strings.Contains(s.get("/status/converge"), "CONVERGE_WAIT_TASK") })
}

func freeAddress(t *testing.T) (host, port string) {
	t.Helper()
	host, port, err := programs.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// syncedBuffer is a buffer that goroutines can read and write at the same time.
type syncedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// process returns a command that runs the program addon-operator in a separate process.
func process(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "addon-operator")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), link, flags...)
}

// hookText returns the text of a hook in bash. The argument config is the configuration of the hook
// as JSON, and the argument body is the script that a run of the hook executes.
func hookText(config, body string) string {
	return "#!/bin/bash\nif [[ $1 == --config ]]; then echo '" + config + "'; exit 0; fi\n" + body + "\n"
}
