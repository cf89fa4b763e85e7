package story

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	program "addon-operator/e2e/operator"
)

// stopWithin is the maximum time for a shutdown of the operator.
const stopWithin = time.Minute

// An operator is a process of the operator that a story has started.
type operator struct {
	cmd  *exec.Cmd
	addr string        // HOST:PORT of the operator's HTTP server
	web  string        // HOST:PORT of the operator's web page
	done chan struct{} // closed when the process has ended
}

var operatorCommands = map[string]command{
	"operator":       runOperator,
	"exit-code":      exitWith,
	"await-exit":     awaitExit,
	"await-output":   awaitOutput,
	"wait-converged": waitConverged,
	"log":            lookAtLog,
	"no-log":         lookAtNoLog,
}

// runOperator implements the command "operator". "operator start [FLAG...]" starts its process. "operator stop" and
// "operator kill" end the process, and "operator exits CODE" waits until it exits with CODE. "operator new-container"
// empties its directory for temporary files, as in a new pod. Any other verb is a command of the operator's program,
// such as "operator status": runOperator waits until the command ends, and writes its output to the standard output of
// the story. In the arguments of such a command, @FILE is replaced by the content of the file.
func runOperator(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("operator start|stop|kill|exits|new-container|VERB [ARG...]")
	}
	if args[0] == "start" {
		return w.start(args[1:])
	}
	if args[0] == "new-container" {
		if w.operator != nil {
			return errors.New("the operator runs")
		}
		return errors.Join(os.RemoveAll(w.path("tmp")), os.Mkdir(w.path("tmp"), 0o755))
	}
	switch args[0] {
	case "stop", "kill", "exits":
		if w.operator == nil {
			return errors.New("the operator does not run")
		}
	}
	switch args[0] {
	case "stop":
		return w.end(syscall.SIGTERM, 0)
	case "kill":
		return w.end(syscall.SIGKILL, -1)
	case "exits":
		code, err := strconv.Atoi(strings.Join(args[1:], " "))
		if err != nil {
			return usage("operator exits CODE")
		}
		return w.end(nil, code)
	}
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "@"); ok {
			args[i] = strings.TrimSpace(ts.ReadFile(file))
		}
	}
	return ts.Exec(w.program, onSocket(w, args)...)
}

// exitWith implements the command "exit-code CODE VERB [ARG...]". It does the same as "operator VERB [ARG...]", but
// the exit code must be CODE.
func exitWith(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return usage("exit-code CODE VERB [ARG...]")
	}
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	err = runOperator(w, ts, args[1:])
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got, err = exit.ExitCode(), nil
	}
	if err == nil && got != code {
		err = fmt.Errorf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, code)
	}
	return err
}

// onSocket returns args with the flag that makes a command of the operator's program connect to the operator of the
// story.
func onSocket(w *environment, args []string) []string {
	return append(slices.Clone(args), "--debug-unix-socket", w.path("socket"))
}

// awaitOutput implements the command "await-output REGEXP VERB [ARG...]". It runs a command of the operator's program
// repeatedly until the command exits with code 0 and its output matches REGEXP.
func awaitOutput(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return usage("await-output REGEXP VERB [ARG...]")
	}
	return awaitExit(w, ts, append([]string{"0"}, args...))
}

// awaitExit implements the command "await-exit CODE REGEXP VERB [ARG...]". It runs a command of the operator's program
// repeatedly until the command exits with CODE and its output matches REGEXP.
func awaitExit(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) < 3 {
		return usage("await-exit CODE REGEXP VERB [ARG...]")
	}
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	return wait(func() error {
		verb := exec.Command(w.program, onSocket(w, args[2:])...)
		output, err := verb.CombinedOutput()
		if verb.ProcessState != nil && verb.ProcessState.ExitCode() != code {
			return fmt.Errorf("%s: exit code %d:\n%s", strings.Join(args[2:], " "), verb.ProcessState.ExitCode(), output)
		}
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return err
		}
		if !pattern.Match(output) {
			return fmt.Errorf("%s: its output does not match:\n%s", strings.Join(args[2:], " "), output)
		}
		return nil
	})
}

func (w *environment) start(flags []string) error {
	if w.operator != nil {
		return errors.New("the operator runs already")
	}
	address, port, err := program.FreeAddress()
	if err != nil {
		return err
	}
	webAddress, webPort, err := program.FreeAddress()
	if err != nil {
		return err
	}
	o := &operator{addr: net.JoinHostPort(address, port), web: net.JoinHostPort(webAddress, webPort), done: make(chan struct{})}
	log, err := os.OpenFile(w.path("operator.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	w.starts++
	if _, err := fmt.Fprintf(log, "--- start %d\n", w.starts); err != nil {
		return err
	}
	o.cmd = exec.Command(w.program, append([]string{
		"start", "--namespace", w.namespace, "--kube-config", w.kubeconfig,
		"--store", w.store(), "--debug-unix-socket", w.path("socket"), "--tmp-dir", w.path("tmp"),
		"--prometheus-listen-address", address, "--prometheus-listen-port", port, "--web-listen-address", o.web,
		"--modules-dir", w.path("modules"), "--global-hooks-dir", w.path("global-hooks"),
		"--webhook-url", "https://127.0.0.1", "--validating-webhook-configuration-name", w.namespace,
		"--validating-webhook-listen-address", "127.0.0.1", "--validating-webhook-listen-port", "0",
		"--conversion-webhook-listen-address", "127.0.0.1", "--conversion-webhook-listen-port", "0",
	}, flags...)...)
	o.cmd.Dir = w.dir
	o.cmd.Env = append(os.Environ(), "LIBRARY="+w.path("library.sh"), "RUNS="+w.path("runs"), "NAMESPACE="+w.namespace)
	if w.certificates != "" {
		o.cmd.Env = append(o.cmd.Env, "SSL_CERT_FILE="+w.certificates)
	}
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = o.cmd.Wait() // ProcessState has the result
		close(o.done)
	}()
	w.operator = o
	return nil
}

// end sends signal to the operator, if signal is not nil, and waits until the operator has ended. end returns an error
// if the operator does not end within the duration of the constant stopWithin, or if its exit code is not code.
func (w *environment) end(signal os.Signal, code int) error {
	o := w.operator
	if err := o.end(signal); err != nil {
		return err
	}
	w.operator = nil
	if got := o.cmd.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("it ended with code %d, not %d", got, code)
	}
	return nil
}

func (o *operator) end(signal os.Signal) error {
	if signal != nil {
		_ = o.cmd.Process.Signal(signal) // fails only if the process has ended
	}
	select {
	case <-o.done:
		return nil
	case <-time.After(stopWithin):
		_ = o.cmd.Process.Kill()
		<-o.done
		return fmt.Errorf("it did not stop within %s", stopWithin)
	}
}

// waitConverged implements the command "wait-converged". It waits until the running process of the operator is ready,
// which means that no module is pending, and that its first converge has ended or its start has nothing to converge. It
// returns an error if the process ends before that.
func waitConverged(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 0 || w.operator == nil {
		return usage("wait-converged, while an operator runs")
	}
	client := http.Client{Timeout: patience}
	return wait(func() error {
		select {
		case <-w.operator.done:
			return final{fmt.Errorf("the operator ended with code %d; it logged:\n%s", w.operator.cmd.ProcessState.ExitCode(), w.lastLog())}
		default:
		}
		answer, err := client.Get("http://" + w.operator.addr + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New("not converged")
		}
		return nil
	})
}

func (w *environment) log() string {
	text, err := os.ReadFile(w.path("operator.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// lastLog returns the part of the log that the last started process has written.
func (w *environment) lastLog() string {
	text := w.log()
	return text[max(0, strings.LastIndex(text, "--- start ")):]
}

// lookAtLog implements the command "log REGEXP". It waits until the log of the last started process matches REGEXP.
func lookAtLog(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("log REGEXP")
	}
	want, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	return wait(func() error {
		if !want.MatchString(w.lastLog()) {
			return errors.New("nothing in the log matches")
		}
		return nil
	})
}

// lookAtNoLog implements the command "no-log REGEXP". lookAtNoLog returns an error if the log of the last started
// process matches REGEXP.
func lookAtNoLog(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("no-log REGEXP")
	}
	unwanted, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	if found := unwanted.FindString(w.lastLog()); found != "" {
		return fmt.Errorf("the log has %q", found)
	}
	return nil
}
