package hook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// runFile is one file that exists during a run of a hook. The hook gets the path in the environment variable called
// variable. If input is nil, the file is created empty, and the hook writes its output to it.
type runFile struct {
	variable string
	alias    string // name of a second environment variable with the path, or ""
	name     string // "*" in it is replaced by a unique ID of the run
	input    []byte
	path     string
}

type runFiles []runFile

// withFiles creates the files in a new directory and calls use. Afterwards it removes the directory, unless keepTemp
// is set.
func (r *Runner) withFiles(files runFiles, use func() error) error {
	// Something that cleans temporary directories may have removed r.dir, or the copy of the framework in it.
	if err := r.framework.copy(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.dir, "run-")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(r.dir, 0o700); err == nil {
			dir, err = os.MkdirTemp(r.dir, "run-")
		}
	}
	if err != nil {
		return fmt.Errorf("files of the run: %w", err)
	}
	if !r.keepTemp {
		defer removeRun(dir, files)
	}
	id := strings.ToLower(rand.Text())
	for i := range files {
		file := &files[i]
		file.path = filepath.Join(dir, strings.Replace(file.name, "*", id, 1))
		if err := writeNew(file.path, file.input); err != nil {
			return fmt.Errorf("%s: %w", file.variable, err)
		}
	}
	return use()
}

// writeNew creates a file that only the user of this process can read, because values contain secrets. Nine files are
// created before each hook run, so speed matters: writeNew makes three system calls for each file, or two if the file
// is empty. Package os would make more than twice as many.
func writeNew(path string, data []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			_ = unix.Close(fd) // the error of the write is more useful than that of the close
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		data = data[max(n, 0):]
	}
	if err := unix.Close(fd); err != nil {
		return &fs.PathError{Op: "close", Path: path, Err: err}
	}
	return nil
}

// removeRun removes the files of a run, and then their directory with all files that the hook has left in it. If files
// cannot be removed, the next runner of the same store removes them.
func removeRun(dir string, files runFiles) {
	for _, file := range files {
		if file.path != "" {
			_ = unix.Unlink(file.path)
		}
	}
	if unix.Rmdir(dir) != nil {
		_ = os.RemoveAll(dir)
	}
}

// variables returns the environment variables with the paths of the files, as NAME=VALUE.
func (files runFiles) variables() []string {
	variables := make([]string, 0, len(files)+1)
	for _, file := range files {
		variables = append(variables, file.variable+"="+file.path)
		if file.alias != "" {
			variables = append(variables, file.alias+"="+file.path)
		}
	}
	return variables
}

// output returns the content that the hook has written to the file of this environment variable. output returns nil if
// the file is empty, or if the hook has removed the file.
func (files runFiles) output(variable string) ([]byte, error) {
	i := slices.IndexFunc(files, func(file runFile) bool { return file.variable == variable })
	path := files[i].path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", variable, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: no longer a regular file; the hook must leave a regular file at this path", variable)
	case info.Size() == 0:
		return nil, nil
	}
	content, err := readBounded(path, maxOutput)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return content, nil
}

// readBounded returns the content of the file at path. The argument most is the maximum size in bytes. If the file is
// larger, readBounded returns an error.
func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer closeFile(file)
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("the file has more than the limit of %d MiB", most>>20)
	}
	return content, nil
}

// safeName converts a name of a module or hook into a part of a file name. The form of the result must not change,
// because hooks may rely on the file names.
func safeName(name string) string {
	const most = 80 // so that a file name with two such names has at most 255 bytes
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '-'
		}
	}, name)
	if len(safe) > most {
		safe = safe[len(safe)-most:]
	}
	return safe
}

// baseEnvironment returns env with the directory tools appended to PATH, unless tools is empty. The result lacks the
// variables that each run sets, and the variables of the operator that contain secrets.
func baseEnvironment(env []string, tools string) ([]string, error) {
	owned := []string{
		"BINDING_CONTEXT_PATH", "CONFIG_VALUES_PATH", "VALUES_PATH", "CONFIG_VALUES_JSON_PATCH_PATH",
		"VALUES_JSON_PATCH_PATH", "METRICS_PATH", "KUBERNETES_PATCH_PATH", "VALIDATING_RESPONSE_PATH",
		"ADMISSION_RESPONSE_PATH", "CONVERSION_RESPONSE_PATH", "MODULE_ENABLED_RESULT", "MODULE_ENABLED_REASON",
		"ADDON_OPERATOR_STORE_ID", "ADDON_OPERATOR_TASK_ID", "ADDON_OPERATOR_ATTEMPT", "ADDON_OPERATOR_PREVIOUS",
		"ADDON_OPERATOR_BASH_ENV", "TRACEPARENT", "TRACESTATE",
		"TRACING_OTLP_AUTH_TOKEN", "ADDON_OPERATOR_TRACING_OTLP_AUTH_TOKEN",
		"OLDPWD",
	}
	path := ""
	kept := make([]string, 0, len(env)+1)
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case slices.Contains(owned, name):
		case name == "PATH":
			path = value
		default:
			kept = append(kept, variable)
		}
	}
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" // the default of shells
	}
	if tools != "" {
		dir, err := filepath.Abs(tools)
		if err != nil {
			return nil, err
		}
		path += string(filepath.ListSeparator) + dir
	}
	return append(kept, "PATH="+path), nil
}
