package hook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// installedFramework is the path at which scripts expect the shell framework. Images of flant/shell-operator have it
// there.
const installedFramework = "/shell_lib.sh"

// framework is a copy of the shell framework in a temporary directory. With the copy, scripts can source
// installedFramework although this file does not exist. The zero value means that there is no copy.
type framework struct {
	files fs.FS
	dir   string
}

// newFramework copies the shell framework to a new directory below dir. The argument files contains the files of the
// framework. If files is nil, or if installedFramework exists, newFramework copies nothing and returns the zero value.
func newFramework(files fs.FS, dir string) (framework, error) {
	if _, err := os.Stat(installedFramework); files == nil || err == nil {
		return framework{}, nil
	}
	f := framework{files: files, dir: filepath.Join(dir, "shell-"+rand.Text())}
	return f, f.copy()
}

// copy creates the directory of the framework with all files, unless it exists.
func (f framework) copy() error {
	if f.files == nil {
		return nil
	}
	if _, err := os.Stat(f.dir); err == nil {
		return nil
	}
	if err := f.create(); err != nil {
		return fmt.Errorf("shell framework: %w", err)
	}
	return nil
}

// create writes the files to another directory and renames it, so hooks and concurrent calls never see only some of the
// files. If a concurrent call was faster, create keeps the files of that call.
func (f framework) create() error {
	parent := filepath.Dir(f.dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	complete, err := os.MkdirTemp(parent, "shell-copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(complete) //nolint:errcheck // after the rename it does not exist
	if err := os.CopyFS(complete, f.files); err != nil {
		return err
	}
	if err := os.Rename(complete, f.dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// environment returns env with the variable BASH_ENV set to the path of bash_env.sh in the copy of the framework. Bash
// executes this file before it executes a script. If env already has a BASH_ENV, its value is moved to
// ADDON_OPERATOR_BASH_ENV, and bash_env.sh executes the file at that path, too.
func (f framework) environment(env []string) []string {
	if f.files == nil {
		return env
	}
	var users []string
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "BASH_ENV=") }); i >= 0 {
		users = []string{"ADDON_OPERATOR_" + env[i]}
	}
	// Bash expands the value of BASH_ENV like a string in double quotes, so escape special characters.
	plain := strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`", `"`, `\"`)
	return environment(env, append(users, "BASH_ENV="+plain.Replace(filepath.Join(f.dir, "bash_env.sh"))))
}
