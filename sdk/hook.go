package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

// Hook is the implementation of a hook.
type Hook struct {
	Config Config
	// Run is called for each run. If Run returns an error, the run has failed: the collected outputs are dropped, and
	// users see the text of the error. Then the hook runs again, unless the binding has AllowFailure or is for reviews
	// of the API server. ctx ends when the operator stops the hook.
	Run func(ctx context.Context, r *Run) error
}

// Main is the whole main function of a hook. If the first argument of the process is --config, Main prints the
// configuration. Without arguments, Main runs the hook with the inputs that the environment names. Any other argument
// is an error. Main then ends the process.
func Main(hook Hook) {
	//nolint:forbidigo // it stands for main
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second signal kills a hook that ignores ctx
	code := hook.Execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // it stands for main
}

// Execute does the work of [Main] with the given arguments and environment. The elements of env
// have the form KEY=VALUE. Execute returns the exit code: 0, or 1 after an error, which it writes
// to stderr.
func (h Hook) Execute(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	err := h.execute(ctx, args, environment(env), stdout)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, err) // an error of this write cannot be reported
	return 1
}

func (h Hook) execute(ctx context.Context, args []string, env environment, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "--config" {
		config, err := json.MarshalIndent(h.Config, "", "  ")
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
		_, err = stdout.Write(append(config, '\n'))
		return err
	}
	if len(args) > 0 {
		return fmt.Errorf("a hook must be called with --config or without arguments (got %q)", args[0])
	}
	r, err := newRun(env, stdout)
	if err != nil {
		return err
	}
	if err := h.call(ctx, r); err != nil {
		return err
	}
	return r.write(env)
}

// call calls Run. If Run panics, call returns an error with the stack of the panic.
func (h Hook) call(ctx context.Context, r *Run) (err error) {
	if h.Run == nil {
		return errors.New("the hook has no Run function")
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return h.Run(ctx, r)
}

// environment holds environment variables in the form KEY=VALUE.
type environment []string

// lookup returns the last value of a variable, or "" if there is none.
func (e environment) lookup(name string) string {
	for _, variable := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
