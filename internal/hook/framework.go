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

// installedFramework is the path of the shell framework in images.
const installedFramework = "/shell_lib.sh"

// framework is a copy of the shell framework. With this copy, scripts can source installedFramework
// even if that file does not exist. The zero value means that there is no copy.
type framework struct {
	files fs.FS
	dir   string
}

// newFramework copies files to a new directory below dir. If files is nil or the framework is
// installed, newFramework copies nothing and returns the zero value.
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

// copy writes the missing files.
func (f framework) copy() error {
	if f.files == nil {
		return nil
	}
	if err := os.CopyFS(f.dir, f.files); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("shell framework: %w", err)
	}
	return nil
}

// environment returns env with BASH_ENV set to bash_env.sh of the framework. Bash reads this file
// before a script. If env contains a BASH_ENV, its value is in ADDON_OPERATOR_BASH_ENV, and
// bash_env.sh reads that file too.
func (f framework) environment(env []string) []string {
	if f.files == nil {
		return env
	}
	var users []string
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "BASH_ENV=") }); i >= 0 {
		users = []string{"ADDON_OPERATOR_" + env[i]}
	}
	// bash expands the value of BASH_ENV.
	plain := strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`", `"`, `\"`)
	return environment(env, append(users, "BASH_ENV="+plain.Replace(filepath.Join(f.dir, "bash_env.sh"))))
}
