package desired

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"addon-operator/internal/hook"
)

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
		m, _ := d.Disk().Find(module)
		switch {
		case gone:
			return file, fmt.Errorf("file %s %w", file.Path, hook.ErrGone)
		case m.Broken != nil:
			return file, fmt.Errorf("file %s is not there, and its module cannot be loaded: %w", file.Path, m.Broken)
		}
		scope, dir = hook.Module, m.Path
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
