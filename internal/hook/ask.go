package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"addon-operator/internal/tree"
)

// maxConfig bounds what a hook prints for --config.
const maxConfig = 1 << 20

// Config asks a hook for its config: it runs `FILE --config` and loads what that prints. The run has no files and no
// task. What the hook prints on stderr is part of the error, and dropped if there is none.
//
// The error names the hook. It holds an [*ExitError] or [ErrInterrupted] as that of [Runner.Run] does.
func (r *Runner) Config(ctx context.Context, file File) (Config, error) {
	printed := &boundWriter{most: maxConfig}
	said := &tailWriter{}
	end, err := r.execute(ctx, program{file: file, args: []string{"--config"}, stdout: printed, stderr: said})
	if err == nil {
		err = end.verdict(said.text())
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
	// Path of the script, absolute.
	Path string
	// Module is the name of the module.
	Module string
	// Task, Attempt (from 1) and Previous tell the script which execution this is.
	Task     string
	Attempt  int
	Previous Previous
	// ConfigValues and Values are JSON.
	ConfigValues, Values []byte
	// Output is as that of [Run].
	Output func(stream Stream, line string)
}

// Enabled asks a module's script whether the module is to be enabled, and why. The reason is "" where the script gives
// none.
//
// A script that does not exit with 0, or answers anything but true or false, is an error. Its text is how the script ended
// and what it said: on stderr, else as the reason, else on stdout. The caller names the module.
func (r *Runner) Enabled(ctx context.Context, run EnabledRun) (enabled bool, reason string, err error) {
	module := safeName(run.Module)
	files := runFiles{
		{variable: "CONFIG_VALUES_PATH", name: module + ".module-config-values-*.json", input: run.ConfigValues},
		{variable: "VALUES_PATH", name: module + ".module-values-*.json", input: run.Values},
		{variable: "MODULE_ENABLED_RESULT", name: module + ".module-enabled-result-*"},
		{variable: "MODULE_ENABLED_REASON", name: module + ".module-enabled-reason-*"},
	}
	err = r.withFiles(files, func() error {
		said := &tailWriter{}
		pass := func(stream Stream, line string) {
			if stream == Stdout {
				_, _ = said.Write([]byte(line + "\n")) // it never fails
			}
			if run.Output != nil {
				run.Output(stream, line)
			}
		}
		env := append(identity(run.Task, run.Attempt, run.Previous), files.variables()...)
		file := File{Scope: Module, Name: "enabled", Path: run.Path}
		if _, err := r.runToEnd(ctx, program{file: file, env: env}, pass); err != nil {
			return files.refusal(err, said.text())
		}
		enabled, reason, err = files.answer()
		return err
	})
	if err != nil {
		return false, "", fmt.Errorf("enabled script: %w", err)
	}
	return enabled, reason, nil
}

// answer reads what an `enabled` script decided.
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

// refusal gives the error of a script that was silent on stderr the words it had elsewhere.
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

// tailOf bounds text for showing it to people.
func tailOf(text []byte) string {
	tail := &tailWriter{}
	_, _ = tail.Write(text) // it never fails
	return tail.text()
}
