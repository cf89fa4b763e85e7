package crashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// StartCommand is the hidden command of the program that starts an operator with a control.
const StartCommand = "supervised-start"

// stopWithin is the time from SIGTERM to SIGKILL for an operator or a control plane that does not end.
const stopWithin = time.Minute

// environment describes the directory, modules and cluster of the operators of one round.
type environment struct {
	dir         string // contains the store, the debug socket, the log and temporary files
	kubeconfig  string
	namespace   string
	configMap   string // name of the operator's ConfigMap
	modules     string
	globalHooks string
}

// environment returns the environment of a round in dir, with the cluster of the kubeconfig file.
func (o *Options) environment(dir, kubeconfig string) environment {
	return environment{
		dir: dir, kubeconfig: kubeconfig, namespace: o.Namespace, configMap: o.ConfigMap, modules: o.modules, globalHooks: o.globalHooks,
	}
}

func (s *environment) socket() string { return filepath.Join(s.dir, "debug.socket") }

func (s *environment) log() string { return filepath.Join(s.dir, "log") }

// operator is a child process that runs an operator. The process may have ended.
type operator struct {
	cmd      *exec.Cmd
	control  net.Conn
	messages chan message
	ended    chan struct{} // closed when the process has ended
}

// args returns the arguments with which the operator is started.
func (s *environment) args() []string {
	return []string{
		StartCommand,
		"--kube-config", s.kubeconfig, "--namespace", s.namespace, "--config-map", s.configMap,
		"--modules-dir", s.modules, "--global-hooks-dir", s.globalHooks,
		"--store", filepath.Join(s.dir, "store.db"), "--tmp-dir", filepath.Join(s.dir, "tmp"), "--debug-unix-socket", s.socket(),
		"--prometheus-listen-address", "127.0.0.1", "--prometheus-listen-port", "0", "--debug-http-addr", "",
		"--webhook-url", "https://127.0.0.1", "--validating-webhook-listen-address", "127.0.0.1", "--validating-webhook-listen-port", "0",
		"--conversion-webhook-listen-address", "127.0.0.1", "--conversion-webhook-listen-port", "0",
		"--snapshot-interval", "0", "--log-type", "json",
	}
}

// start starts an operator as a child process. The methods kill and stop end the child process. The
// child process also ends when this process ends, because its control is then closed.
func (s *environment) start() (*operator, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor of the log
	ours, theirs, err := newControl()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() // otherwise the connection would stay open after the child has ended
	o := &operator{control: ours, messages: make(chan message), ended: make(chan struct{})}
	o.cmd = exec.CommandContext(context.Background(), program, s.args()...)
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig) // for hooks that call kubectl
	o.cmd.Stdout, o.cmd.Stderr, o.cmd.ExtraFiles = log, log, []*os.File{theirs}
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := o.cmd.Start(); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	go o.read()
	return o, nil
}

// read sends the messages of the operator to o.messages until the operator has ended, and then
// closes o.ended.
func (o *operator) read() {
	defer close(o.ended)
	lines := bufio.NewReader(o.control)
	for {
		line, err := lines.ReadBytes('\n')
		var m message
		if err != nil || json.Unmarshal(line, &m) != nil {
			break
		}
		o.messages <- m
	}
	_ = o.cmd.Wait() // ProcessState has the result
}

// allow lets the operator continue after the [workflow.Moment] that it has reported.
func (o *operator) allow() {
	_, _ = o.control.Write([]byte{1}) // fails only if the operator has ended; the method read notices the end
}

// kill ends the operator with SIGKILL and waits for its end.
func (o *operator) kill() {
	_ = o.cmd.Process.Kill() // fails only if the process has ended
	o.drain()
	_ = o.control.Close()
}

// drain discards the messages of the operator, and lets it continue after each reported moment,
// until the process has ended.
func (o *operator) drain() {
	for {
		select {
		case m := <-o.messages:
			if m.At != "" {
				o.allow()
			}
		case <-o.ended:
			return
		}
	}
}

// stop ends the operator with SIGTERM and waits for its end.
func (o *operator) stop() {
	_ = o.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	kill := time.AfterFunc(stopWithin, func() { _ = o.cmd.Process.Kill() })
	defer kill.Stop()
	o.drain()
	_ = o.control.Close()
}

// get requests path from the debug socket and decodes the response into out.
func (s *environment) get(ctx context.Context, path string, out any) error {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// values returns the merged values of a module, or of the global section if module is "". The
// values may contain secrets.
func (s *environment) values(ctx context.Context, module string) (map[string]any, error) {
	path := "/global/values.json"
	if module != "" {
		path = "/module/" + url.PathEscape(module) + "/values.json"
	}
	var out map[string]any
	return out, s.get(ctx, path+"?show-secrets=true", &out)
}

// endOfLog returns the last lines of the operator's log, or the error of reading the log.
func (s *environment) endOfLog(lines int) string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
