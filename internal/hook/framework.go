package hook

import (
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
	dir, err := os.MkdirTemp(dir, "shell-")
	if err != nil {
		return framework{}, fmt.Errorf("shell framework: %w", err)
	}
	f := framework{files: files, dir: dir}
	return f, f.copy()
}

// copy writes the files of the framework to its directory. If one of them exists, copy stops without an error,
// because a concurrent call of copy writes the files.
func (f framework) copy() error {
	if f.files == nil {
		return nil
	}
	if err := os.CopyFS(f.dir, f.files); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("shell framework: %w", err)
	}
	return nil
}

// environment returns env with the variable BASH_ENV set to the path of bash_env.sh in the copy of the framework. Bash
// executes this file before it executes a script. If env already has a BASH_ENV, its value is moved to
// ADDON_OPERATOR_BASH_ENV, and bash_env.sh executes that file, too.
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
