package desired

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"addon-operator/internal/hook"
)

// ErrNoDirectory means that the directory of a module, which the last scan has found, does not exist, and that no
// other directory has the module. The next scan finds out whether the module was deleted, or its directory was only
// replaced.
var ErrNoDirectory = errors.New("the directory of its module does not exist; if the module was deleted, run addon-operator reload")

// Locate returns file with its current path. The path changes if the number in the name of the module's directory
// changes. The error wraps hook.ErrGone only if the file has certainly been deleted.
func (d *Modules) Locate(module string, file hook.File) (hook.File, error) {
	if _, err := os.Stat(file.Path); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	scope, dir := hook.Global, d.globalHooks
	if module != "" {
		gone, err := d.Gone(module)
		if err != nil {
			return file, err
		}
		if gone {
			return file, fmt.Errorf("file %s %w", file.Path, hook.ErrGone)
		}
		scope = hook.Module
		if dir, err = d.directory(module); err != nil {
			return file, fmt.Errorf("file %s is not there: %w", file.Path, err)
		}
	}
	files, _, err := hook.Find(scope, dir)
	if err != nil {
		return file, err
	}
	if i := slices.IndexFunc(files, func(f hook.File) bool { return f.Name == file.Name }); i >= 0 {
		return files[i], nil
	}
	if len(files) == 0 && module == "" {
		return file, fmt.Errorf("file %s is not there, and %s holds no hook at all: is it mounted?", file.Path, d.globalHooks)
	}
	return file, fmt.Errorf("file %s %w", file.Path, hook.ErrGone)
}

// directory returns the current directory of a module that the last scan has found. If the directory has been renamed
// since then, directory finds it under its new name.
func (d *Modules) directory(name string) (string, error) {
	m, _ := d.Disk().Find(name)
	if m.Broken != nil {
		return "", fmt.Errorf("its module cannot be loaded: %w", m.Broken)
	}
	if _, err := os.Stat(m.Path); !errors.Is(err, fs.ErrNotExist) {
		return m.Path, err
	}
	set, err := d.List()
	if err != nil {
		return "", err
	}
	now, found := set.Find(name)
	switch {
	case found && now.Broken != nil:
		return "", fmt.Errorf("its module cannot be loaded: %w", now.Broken)
	case found:
		return now.Path, nil
	case len(set.Empty) > 0:
		return "", fmt.Errorf("%s holds no module at all: is it mounted?", strings.Join(set.Empty, ", "))
	default:
		return "", ErrNoDirectory
	}
}
