package hook

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Options are what a [Runner] needs to know.
type Options struct {
	// TempDir holds the files of runs, each run's in a directory of its own; it is made if absent.
	TempDir string
	// ToolsDir is put behind everything else on the PATH of hooks; "" for none.
	ToolsDir string
	// Framework holds the files of the shell framework, shell_lib.sh and bash_env.sh at the top. Where /shell_lib.sh is
	// not installed, hooks source this one by that name. Nil is none.
	Framework fs.FS
	// StoreID marks every process started, for [KillLeftovers]. It also names a directory in TempDir that belongs to
	// this runner alone.
	StoreID string
	// KeepTemp leaves the files of runs in place.
	KeepTemp bool
	// Env is the environment hooks are given beside their own variables; nil is that of this process.
	Env []string
	// Timeout is how long a run may take that sets no timeout of its own; 0 is no limit.
	Timeout time.Duration
	// StopGrace is the time from SIGTERM to SIGKILL for a run that timed out or was canceled; 0 is 5 s.
	StopGrace time.Duration
	// TermAfter and KillAfter are counted from the end of a run's context; 0 is 15 s and 20 s.
	TermAfter, KillAfter time.Duration
	// JoinJSON has a JSON object that a hook prints over several lines come as one line of its output.
	JoinJSON bool
	// Drain is how long output of processes that a hook left behind is waited for; 0 is one second.
	Drain time.Duration
	// Clock tells the time, for what a run took; nil tells of none.
	Clock func() time.Time
}

// Runner runs hooks and `enabled` scripts, any number side by side. Make one with [NewRunner].
type Runner struct {
	starter              *starter
	env                  []string
	dir                  string
	framework            framework
	keepTemp             bool
	termAfter, killAfter time.Duration
	timeout, stopGrace   time.Duration
	drain                time.Duration
	joinJSON             bool
	clock                func() time.Time
}

// NewRunner makes a runner. With a StoreID, files left by an earlier runner of the same store are removed unless
// KeepTemp is set; that one must have ended. The caller closes the runner.
func NewRunner(o Options) (*Runner, error) {
	r := &Runner{
		keepTemp:  o.KeepTemp,
		joinJSON:  o.JoinJSON,
		termAfter: orDefault(o.TermAfter, 15*time.Second),
		killAfter: orDefault(o.KillAfter, 20*time.Second),
		timeout:   o.Timeout,
		stopGrace: orDefault(o.StopGrace, stopGrace),
		drain:     orDefault(o.Drain, time.Second),
		clock:     o.Clock,
	}
	if r.clock == nil {
		r.clock = func() time.Time { return time.Time{} }
	}
	base := o.Env
	if base == nil {
		base = os.Environ()
	}
	env, err := baseEnvironment(base, o.ToolsDir)
	if err != nil {
		return nil, fmt.Errorf("hook runner: %w", err)
	}
	r.env = append(env, storeVariable+"="+o.StoreID)
	// Hooks run in directories of their own, so the path they are given must be absolute.
	if r.dir, err = filepath.Abs(o.TempDir); err != nil {
		return nil, fmt.Errorf("hook runner: %w", err)
	}
	if o.StoreID != "" {
		r.dir = filepath.Join(r.dir, "store-"+safeName(o.StoreID))
		if !o.KeepTemp {
			if err := os.RemoveAll(r.dir); err != nil {
				return nil, fmt.Errorf("hook runner: remove files of an earlier one: %w", err)
			}
		}
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("hook runner: %w", err)
	}
	if r.framework, err = newFramework(o.Framework, r.dir); err != nil {
		return nil, fmt.Errorf("hook runner: %w", err)
	}
	r.env = r.framework.environment(r.env)
	if r.starter, err = newStarter(); err != nil {
		return nil, fmt.Errorf("hook runner: %w", err)
	}
	return r, nil
}

// Close ends the runner: it starts nothing more. What runs goes on to its end and is not waited for.
func (r *Runner) Close() {
	r.starter.close()
}

// Previous is how the attempt before this one ended.
type Previous string

// The ends of an earlier attempt. "" is none.
const (
	PreviousNone        Previous = "none"
	PreviousFailed      Previous = "failed"
	PreviousInterrupted Previous = "interrupted"
)

// Run is one execution of a hook.
type Run struct {
	File File
	// Module is the name of the hook's module, "" for a global hook.
	Module string
	// Task, Attempt (from 1) and Previous tell the hook which execution this is.
	Task     string
	Attempt  int
	Previous Previous
	// Context is the binding context, made by [Encode].
	Context []byte
	// ConfigValues and Values are JSON.
	ConfigValues, Values []byte
	// Timeout is how long it may take; 0 is the default of the runner.
	Timeout time.Duration
	// Awaited: somebody waits for the response of the hook. When ctx ends it is signalled at once, and killed a second
	// later.
	Awaited bool
	// Started is called once the process has started, and must return at once; nil is no call.
	Started func()
	// Output is called for each line the hook prints, by one goroutine at a time; nil drops them. A line has at most
	// 10,000 characters, a longer one is cut and ends in "…". While it is not back, the hook may have to wait.
	Output func(stream Stream, line string)
}

// Result is what a hook that succeeded has to say: its output files as they are, nil where it wrote nothing.
type Result struct {
	// ConfigPatch and ValuesPatch are streams of JSON patches.
	ConfigPatch, ValuesPatch []byte
	// Metrics is a stream of metric operations.
	Metrics []byte
	// Operations are those for objects of the cluster.
	Operations []byte
	// Admission is for [ParseVerdict], Conversion for [ParseConverted].
	Admission, Conversion []byte
	Usage                 Usage
}

// maxOutput bounds each output file. What a hook returns has to fit into one commit of the store.
const maxOutput = 16 << 20

// Run executes a hook and reads its output files when it succeeded. The input files are written from r once; a hook may
// write over them.
//
// The error is an [*ExitError] when the hook ended by itself and not well, holds [ErrInterrupted] when ctx ended it,
// [ErrTimeout] when it took too long, or the cause of ctx when ctx was canceled with one (see [context.WithCancelCause]):
// then its process group gets SIGTERM at once, and SIGKILL after the grace time. It is any other when it could not be
// started or what it wrote cannot be taken. Of the result only Usage is set then.
func (r *Runner) Run(ctx context.Context, run Run) (Result, error) {
	hookName, moduleName := safeName(run.File.Name), safeName(run.Module)
	if run.Module == "" {
		moduleName = "global"
	}
	files := runFiles{
		{variable: "BINDING_CONTEXT_PATH", name: moduleName + ".module-hook-" + hookName + "-binding-context-*.json", input: run.Context},
		{variable: "CONFIG_VALUES_PATH", name: moduleName + ".module-config-values-*.json", input: run.ConfigValues},
		{variable: "VALUES_PATH", name: moduleName + ".module-values-*.json", input: run.Values},
		{variable: "CONFIG_VALUES_JSON_PATCH_PATH", name: hookName + ".module-hook-config-values-*.json-patch"},
		{variable: "VALUES_JSON_PATCH_PATH", name: hookName + ".module-hook-values-*.json-patch"},
		{variable: "METRICS_PATH", name: hookName + ".module-hook-metrics-*.json"},
		{variable: "KUBERNETES_PATCH_PATH", name: hookName + "-object-patch-*"},
		{variable: "ADMISSION_RESPONSE_PATH", alias: "VALIDATING_RESPONSE_PATH", name: "hook-" + hookName + "-admission-response-*.json"},
		{variable: "CONVERSION_RESPONSE_PATH", name: "hook-" + hookName + "-conversion-response-*.json"},
	}
	var result Result
	var usage Usage
	err := r.withFiles(files, func() (err error) {
		env := append(identity(run.Task, run.Attempt, run.Previous), files.variables()...)
		usage, err = r.runToEnd(ctx, program{file: run.File, env: env, awaited: run.Awaited, timeout: run.Timeout, started: run.Started}, run.Output)
		if err != nil {
			return err
		}
		result, err = readResult(files)
		return err
	})
	result.Usage = usage
	return result, err
}

// readResult takes over the output files of a hook that succeeded: all of them, or none and an error.
func readResult(files runFiles) (Result, error) {
	var result Result
	for _, output := range []struct {
		variable string
		into     *[]byte
	}{
		{"CONFIG_VALUES_JSON_PATCH_PATH", &result.ConfigPatch},
		{"VALUES_JSON_PATCH_PATH", &result.ValuesPatch},
		{"METRICS_PATH", &result.Metrics},
		{"ADMISSION_RESPONSE_PATH", &result.Admission},
		{"CONVERSION_RESPONSE_PATH", &result.Conversion},
		{"KUBERNETES_PATCH_PATH", &result.Operations},
	} {
		content, err := files.output(output.variable)
		if err != nil {
			return Result{}, err
		}
		*output.into = content
	}
	return result, nil
}

// runToEnd executes a hook, passing its output on, and judges how it ended.
func (r *Runner) runToEnd(ctx context.Context, p program, pass func(Stream, string)) (Usage, error) {
	if pass == nil {
		pass = func(Stream, string) {}
	}
	join := newJoiner(pass)
	if r.joinJSON {
		pass = join.line
	}
	var turn sync.Mutex
	stdout := &lineWriter{stream: Stdout, pass: pass, turn: &turn}
	stderr := &lineWriter{stream: Stderr, pass: pass, turn: &turn}
	said := &tailWriter{}
	p.stdout, p.stderr = stdout, both{stderr, said}
	end, err := r.execute(ctx, p)
	if err != nil {
		return Usage{}, err
	}
	stdout.close()
	stderr.close()
	join.release(Stdout)
	join.release(Stderr)
	usage := usageOf(end.state)
	usage.Took = end.took
	return usage, end.verdict(said.text())
}

// identity returns the variables that tell a process which execution it is.
func identity(task string, attempt int, previous Previous) []string {
	return []string{
		"ADDON_OPERATOR_TASK_ID=" + task,
		"ADDON_OPERATOR_ATTEMPT=" + strconv.Itoa(attempt),
		"ADDON_OPERATOR_PREVIOUS=" + string(orDefault(previous, PreviousNone)),
	}
}

// verdict is nil for a process that ended well by itself.
func (e ending) verdict(said string) error {
	switch {
	case e.cause != nil:
		return fmt.Errorf("%w (%s)", e.cause, e.state)
	case e.signalled:
		return fmt.Errorf("%w: signalled because the operator stops (%s)", ErrInterrupted, e.state)
	case e.state.Success():
		return nil
	default:
		return &ExitError{Code: e.state.ExitCode(), State: e.state.String(), Said: said}
	}
}

func orDefault[T comparable](value, absent T) T {
	var zero T
	if value == zero {
		return absent
	}
	return value
}
