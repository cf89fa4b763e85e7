package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"addon-operator/sdk"
	"addon-operator/sdk/shell"
)

// Subject is the hook that a test runs.
type Subject interface {
	// execute runs the hook and returns its exit code. The environment of the hook is the environment of the test,
	// with the variables in env added.
	execute(ctx context.Context, args, env []string, stdout, stderr io.Writer) (code int, err error)
}

// Go returns a hook implemented with package sdk. It runs in the process of the test.
func Go(hook sdk.Hook) Subject { return inProcess{hook} }

// File returns a hook that is the executable at path. A bash script can load /shell_lib.sh with the command source,
// even if this file does not exist. A hook has the PATH of the test, so a hook that calls jq needs jq in this PATH.
func File(path string) Subject { return executable(path) }

type inProcess struct{ hook sdk.Hook }

func (p inProcess) execute(ctx context.Context, args, env []string, stdout, stderr io.Writer) (int, error) {
	return p.hook.Execute(ctx, args, append(os.Environ(), env...), stdout, stderr), nil
}

type executable string

func (x executable) execute(ctx context.Context, args, env []string, stdout, stderr io.Writer) (code int, err error) {
	path, err := filepath.Abs(string(x))
	if err != nil {
		return 0, err
	}
	framework, err := os.MkdirTemp("", "sdktest-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(framework)) }()
	if err := os.CopyFS(framework, shell.Framework); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = append(append(cmd.Environ(), env...), "BASH_ENV="+filepath.Join(framework, "bash_env.sh"))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return max(exit.ExitCode(), 1), nil // the exit code is -1 if a signal ended the hook
	}
	return 0, err
}

// outcome is the printed output of a hook and, if it succeeded, its output files.
type outcome struct {
	stdout, stderr string
	files          map[string][]byte
}

// The environment variables with the paths of the input files and of the output files of a run.
var (
	inputs  = []string{"BINDING_CONTEXT_PATH", "VALUES_PATH", "CONFIG_VALUES_PATH"}
	outputs = []string{
		"VALUES_JSON_PATCH_PATH", "CONFIG_VALUES_JSON_PATCH_PATH", "KUBERNETES_PATCH_PATH", "METRICS_PATH",
		"ADMISSION_RESPONSE_PATH", "CONVERSION_RESPONSE_PATH",
	}
)

// runFiles runs a subject. The argument files maps environment variables to the contents of the input files.
func runFiles(ctx context.Context, subject Subject, files map[string][]byte) (o outcome, err error) {
	dir, err := os.MkdirTemp("", "sdktest-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := []string{
		"ADDON_OPERATOR_ATTEMPT=1", "ADDON_OPERATOR_PREVIOUS=none", "ADDON_OPERATOR_TASK_ID=1-1",
		"VALIDATING_RESPONSE_PATH=" + filepath.Join(dir, "ADMISSION_RESPONSE_PATH"),
	}
	for _, variable := range append(append([]string{}, inputs...), outputs...) {
		path := filepath.Join(dir, variable)
		if err := os.WriteFile(path, files[variable], 0o600); err != nil {
			return o, err
		}
		env = append(env, variable+"="+path)
	}
	var stdout, stderr bytes.Buffer
	code, err := subject.execute(ctx, nil, env, &stdout, &stderr)
	o.stdout, o.stderr = stdout.String(), stderr.String()
	if err == nil && code != 0 {
		err = fmt.Errorf("the hook failed with exit code %d: %s", code, bytes.TrimSpace(stderr.Bytes()))
	}
	if err != nil {
		return o, err
	}
	o.files = map[string][]byte{}
	for _, variable := range outputs {
		content, err := os.ReadFile(filepath.Join(dir, variable))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return o, err
		}
		o.files[variable] = content
	}
	return o, nil
}
