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

// Options configure a [Runner].
type Options struct {
	// TempDir is the directory for the files of runs. Each run has a directory of its own in it. NewRunner creates
	// TempDir if it does not exist.
	TempDir string
	// ToolsDir is a directory of programs that is appended to the PATH of hooks, or "".
	ToolsDir string
	// Framework contains the files of the shell framework, with shell_lib.sh and bash_env.sh in its root. If
	// /shell_lib.sh does not exist, bash hooks that source this path load shell_lib.sh from Framework instead. If
	// Framework is nil, such hooks fail to source this path.
	Framework fs.FS
	// StoreID is the ID of the operator's store. It is in the environment of all started processes, so that
	// [KillLeftovers] finds them. It is also part of the name of a directory in TempDir that only this runner uses.
	StoreID string
	// KeepTemp means that the files of a run are not removed after the run.
	KeepTemp bool
	// Env has environment variables for hooks, as NAME=VALUE. Nil means the environment of this process. Variables with
	// secrets of the operator are dropped. Each run sets its own variables, which replace those in Env.
	Env []string
	// Timeout is the maximum duration of an `enabled` script, and of a run for a binding without a timeout; see
	// [Run.Timeouts]. Zero means no limit.
	Timeout time.Duration
	// ConfigTimeout is the maximum duration of a run with --config. Zero means 30 s. If Timeout is not zero and is
	// shorter, Timeout is the maximum instead.
	ConfigTimeout time.Duration
	// StopGrace is the time from SIGTERM to SIGKILL if a run has reached its timeout, or was canceled with a cause.
	// Zero means 5 s. If [Run].Awaited is set, the time is always one second.
	StopGrace time.Duration
	// TermAfter and KillAfter are for the stop of the operator. Both are durations from the end of the context of a
	// running hook: the hook gets SIGTERM after TermAfter, and SIGKILL after KillAfter. Zero means 15 s and 20 s.
	TermAfter, KillAfter time.Duration
	// JoinJSON means that a JSON object that a hook prints over several lines is passed on as one line of output.
	JoinJSON bool
	// Drain is the maximum time for which a run waits for more output after the hook has ended, if child processes of
	// the hook still run. Zero means one second.
	Drain time.Duration
	// Clock returns the current time. It is used to measure the duration of runs. If it is nil, the duration is not
	// measured.
	Clock func() time.Time
}

// Runner runs hooks and `enabled` scripts. It is safe for concurrent use.
type Runner struct {
	starter              *starter
	env                  []string
	dir                  string
	framework            framework
	keepTemp             bool
	termAfter, killAfter time.Duration
	timeout, stopGrace   time.Duration
	configTimeout        time.Duration
	drain                time.Duration
	joinJSON             bool
	clock                func() time.Time
}

// NewRunner returns a runner. If StoreID is set and KeepTemp is not, NewRunner removes the files that an earlier
// runner of the same store has left. The earlier runner must no longer run hooks. The caller must close the new runner.
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

		configTimeout: orDefault(o.ConfigTimeout, configTimeout),
	}
	if r.timeout > 0 {
		r.configTimeout = min(r.configTimeout, r.timeout)
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
	// The paths of files must be absolute, because each hook runs in the directory of its own file.
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

// Close prevents the start of further processes. It neither stops running processes nor waits for them.
func (r *Runner) Close() {
	r.starter.close()
}

// Previous is the result of the previous attempt of the same task.
type Previous string

// The results of a previous attempt. "" means PreviousNone.
const (
	PreviousNone        Previous = "none"
	PreviousFailed      Previous = "failed"
	PreviousInterrupted Previous = "interrupted"
)

// Run is one execution of a hook.
type Run struct {
	File File
	// Module is the name of the module to which the hook belongs. It is "" for a global hook.
	Module string
	// Task, Attempt (from 1) and Previous are passed to the hook in environment variables. Task is the ID of the task
	// or, in a run for a review request, the UID of the request.
	Task     string
	Attempt  int
	Previous Previous
	// TraceParent identifies the tracing span of this execution, in the form of the header traceparent of W3C Trace
	// Context. If it is empty, the execution is not traced.
	TraceParent string
	// Context is the binding context, which [Encode] has returned.
	Context []byte
	// ConfigValues and Values are the values that the hook gets, as JSON.
	ConfigValues, Values []byte
	// Timeouts has the timeouts of the bindings for which the hook runs. The longest of them is the maximum duration of
	// the run. A timeout of zero means [Options.Timeout], which also applies if there are no timeouts.
	Timeouts []time.Duration
	// Awaited means that somebody waits for the response of the hook. So when ctx ends, the process group gets SIGTERM
	// at once, and SIGKILL one second later.
	Awaited bool
	// Started, if not nil, is called when the process has started. It must return at once.
	Started func()
	// Output is called for each line that the hook prints, but never concurrently. If Output is nil, the lines are
	// dropped. A line with more than 10,000 characters is truncated and ends with "…". If Output is slow, the hook may
	// block when it prints.
	Output func(stream Stream, line string)
}

// Result contains the unparsed contents of the output files of a successful hook, and the resource usage of the hook.
// If the hook has left a file empty or has removed it, the content is nil.
type Result struct {
	// ConfigPatch has JSON patches of the config values, and ValuesPatch has JSON patches of the values, one after
	// another.
	ConfigPatch, ValuesPatch []byte
	// Metrics has operations on metrics, one after another.
	Metrics []byte
	// Operations has operations on objects in the cluster, one after another.
	Operations []byte
	// Admission and Conversion are the responses to review requests of the API server, see [ParseVerdict] and
	// [ParseConverted].
	Admission, Conversion []byte
	Usage                 Usage
}

// maxOutput is the maximum size of an output file in bytes. It is limited because the output of a hook must fit into
// one transaction of the store.
const maxOutput = 16 << 20

// Run executes a hook. If the hook succeeds, Run returns the contents of its output files. Each run has input files of
// its own, so the hook may overwrite them.
//
// The error is an [*ExitError] if the hook failed and was not stopped. Otherwise the error wraps [ErrTimeout] after a
// timeout, the cause of ctx if ctx was canceled with a cause (see [context.WithCancelCause]), or [ErrInterrupted] if
// ctx ended without a cause. After a timeout or a cancellation with a cause, the process group gets SIGTERM at once,
// and SIGKILL after [Options].StopGrace, or after one second if run.Awaited is set. Any other error means that the
// hook could not be started, or that an output file could not be read. If the hook was not started, for any of these
// reasons, the error is a [*StartError]. If there is an error, only the field Usage of the result is set.
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
	began := false
	started := func() {
		if began = true; run.Started != nil {
			run.Started()
		}
	}
	err := r.withFiles(files, func() (err error) {
		env := append(identity(run.Task, run.Attempt, run.Previous), files.variables()...)
		if run.TraceParent != "" {
			env = append(env, "TRACEPARENT="+run.TraceParent)
		}
		usage, err = r.runToEnd(ctx, program{file: run.File, env: env, awaited: run.Awaited, timeout: r.longest(run.Timeouts), started: started}, run.Output)
		if err != nil {
			return err
		}
		result, err = readResult(files)
		return err
	})
	result.Usage = usage
	if err != nil && !began {
		err = &StartError{err}
	}
	return result, err
}

// longest returns the longest of the timeouts of one run. The result is zero if the run has no limit.
func (r *Runner) longest(timeouts []time.Duration) time.Duration {
	if len(timeouts) == 0 {
		return r.timeout
	}
	longest := time.Duration(0)
	for _, timeout := range timeouts {
		timeout = orDefault(timeout, r.timeout)
		if timeout == 0 {
			return 0
		}
		longest = max(longest, timeout)
	}
	return longest
}

// readResult reads the output files of a successful hook. If one of them cannot be read, it returns no contents.
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

// runToEnd executes p and calls pass for each line of its output. The error is nil if the process has succeeded.
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
	tail := &tailWriter{}
	p.stdout, p.stderr = stdout, both{stderr, tail}
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
	return usage, end.verdict(tail.text())
}

// identity returns the environment variables that tell a process its task, its attempt and the result of the previous
// attempt.
func identity(task string, attempt int, previous Previous) []string {
	return []string{
		"ADDON_OPERATOR_TASK_ID=" + task,
		"ADDON_OPERATOR_ATTEMPT=" + strconv.Itoa(attempt),
		"ADDON_OPERATOR_PREVIOUS=" + string(orDefault(previous, PreviousNone)),
	}
}

// verdict returns the error of the run. It is nil if the process has succeeded and was not signalled. tail is the end
// of what the process has written to stderr.
func (e ending) verdict(tail string) error {
	switch {
	case e.cause != nil:
		return fmt.Errorf("%w (%s)", e.cause, e.state)
	case e.signalled:
		return fmt.Errorf("%w: signalled because the operator stops (%s)", ErrInterrupted, e.state)
	case e.state.Success():
		return nil
	default:
		return &ExitError{Code: e.state.ExitCode(), State: e.state.String(), Said: tail}
	}
}

func orDefault[T comparable](value, absent T) T {
	var zero T
	if value == zero {
		return absent
	}
	return value
}
