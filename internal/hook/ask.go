package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"addon-operator/internal/tree"
)

// maxConfig is the maximum size, in bytes, of the output of a hook that is run with --config.
const maxConfig = 1 << 20

// configTimeout is the default of the maximum duration of a run with --config. Every run with --config needs a limit,
// because a hook that does not end would block more than its queue: the start of the webhook servers, the discovery of
// modules, and the deletion of its module.
const configTimeout = 30 * time.Second

// Config runs the hook with the argument --config, and loads the config that the hook prints. The process gets no
// files and no task ID. If the hook fails, the error includes the end of its stderr. Otherwise stderr is dropped.
//
// The error names the hook. Like an error of [Runner.Run], it wraps an [*ExitError] if the hook has failed,
// [ErrInterrupted] if it was interrupted, and [ErrTimeout] if it has reached its timeout.
func (r *Runner) Config(ctx context.Context, file File) (Config, error) {
	printed := &boundWriter{most: maxConfig}
	tail := &tailWriter{}
	end, err := r.execute(ctx, program{file: file, args: []string{"--config"}, stdout: printed, stderr: tail, timeout: r.configTimeout})
	if err == nil {
		err = end.verdict(tail.text())
	}
	if err != nil {
		return Config{}, fmt.Errorf("hook %s --config: %w", file.Name, err)
	}
	if printed.over > 0 {
		return Config{}, fmt.Errorf("hook %s --config printed %d bytes, at most %d are read",
			file.Name, maxConfig+printed.over, maxConfig)
	}
	config, err := Load(file.Scope, printed.kept)
	if err != nil {
		return Config{}, fmt.Errorf("hook %s --config: %w", file.Name, err)
	}
	return config, nil
}

// EnabledRun is one execution of a module's `enabled` script.
type EnabledRun struct {
	// Path is the absolute path of the script.
	Path string
	// Module is the name of the module.
	Module string
	// Task, Attempt (from 1) and Previous are passed to the script in environment variables, as to a hook.
	Task     string
	Attempt  int
	Previous Previous
	// ConfigValues and Values are the values that the script gets, as JSON.
	ConfigValues, Values []byte
	// Output is called for each line of output, see [Run.Output].
	Output func(stream Stream, line string)
}

// Enabled runs the `enabled` script of a module and returns its decision and reason. If the script
// writes no reason, the reason is "".
//
// Enabled returns an error if the script does not exit with 0, or if its result is neither true nor false. If the
// script fails, the error includes its exit status and a text that the script has written: the end of stderr, or the
// reason if stderr is empty, or the end of stdout if the reason is empty, too. The caller must add the name of the
// module to the error.
func (r *Runner) Enabled(ctx context.Context, run EnabledRun) (enabled bool, reason string, err error) {
	module := safeName(run.Module)
	files := runFiles{
		{variable: "CONFIG_VALUES_PATH", name: module + ".module-config-values-*.json", input: run.ConfigValues},
		{variable: "VALUES_PATH", name: module + ".module-values-*.json", input: run.Values},
		{variable: "MODULE_ENABLED_RESULT", name: module + ".module-enabled-result-*"},
		{variable: "MODULE_ENABLED_REASON", name: module + ".module-enabled-reason-*"},
	}
	err = r.withFiles(files, func() error {
		tail := &tailWriter{}
		pass := func(stream Stream, line string) {
			if stream == Stdout {
				_, _ = tail.Write([]byte(line + "\n")) // it never fails
			}
			if run.Output != nil {
				run.Output(stream, line)
			}
		}
		env := append(identity(run.Task, run.Attempt, run.Previous), files.variables()...)
		file := File{Scope: Module, Name: "enabled", Path: run.Path}
		if _, err := r.runToEnd(ctx, program{file: file, env: env}, pass); err != nil {
			return files.refusal(err, tail.text())
		}
		enabled, reason, err = files.answer()
		return err
	})
	if err != nil {
		return false, "", fmt.Errorf("enabled script: %w", err)
	}
	return enabled, reason, nil
}

// answer returns the decision and the reason that an `enabled` script has written to its files.
func (files runFiles) answer() (enabled bool, reason string, err error) {
	result, err := files.output("MODULE_ENABLED_RESULT")
	if err != nil {
		return false, "", err
	}
	why, err := files.output("MODULE_ENABLED_REASON")
	if err != nil {
		return false, "", err
	}
	reason = tailOf(why)
	switch answer := string(bytes.TrimSpace(result)); answer {
	case "true", "false":
		return answer == "true", reason, nil
	case "":
		return false, "", errors.New("MODULE_ENABLED_RESULT: the script wrote nothing, it must write true or false")
	default:
		return false, "", fmt.Errorf("MODULE_ENABLED_RESULT: the script wrote %q, it must write true or false",
			tree.Excerpt(answer))
	}
}

// refusal adds a text to err if an `enabled` script has failed without output on stderr: the reason that the script
// has written, or stdout if there is no reason.
func (files runFiles) refusal(err error, stdout string) error {
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Said != "" {
		return err
	}
	exit.Said = stdout
	if why, readErr := files.output("MODULE_ENABLED_REASON"); readErr == nil && len(bytes.TrimSpace(why)) > 0 {
		exit.Said = tailOf(why)
	}
	return exit
}

// tailOf returns the end of text, in the form that the method text of tailWriter describes.
func tailOf(text []byte) string {
	tail := &tailWriter{}
	_, _ = tail.Write(text) // it never fails
	return tail.text()
}
