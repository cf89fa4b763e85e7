package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"addon-operator/internal/catalog"
)

const (
	indexFile   = "index.yaml"
	archiveType = ".tgz"
)

// A Repository is a directory that contains addons. Each addon is a directory or an archive.
type Repository struct {
	dir  string
	root *os.Root
	// addons are sorted by path.
	addons []*addon
}

// An addon is a directory or archive in a repository.
type addon struct {
	// path is relative to the repository.
	path   string
	packed bool
	fsys   fs.FS
	loaded *catalog.Loaded
	// err is the reason why the addon cannot be loaded. If it is nil, loaded is set.
	err error
}

// Open reads the addons in the directory dir. It ignores hidden files and directories, files that are not .tgz
// archives, and directories that contain none of meta.yaml, chart/ and plans/. Open returns an error if dir contains no
// addons, or is an addon itself.
func Open(ctx context.Context, dir string) (*Repository, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	r := &Repository{dir: dir, root: root}
	if err := r.read(ctx); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return r, nil
}

// Close closes the directory.
func (r *Repository) Close() error { return r.root.Close() }

func (r *Repository) read(ctx context.Context) error {
	if isAddon(r.root.FS()) {
		return fmt.Errorf("%s is an addon, not a directory of addons; give the directory that contains it", r.dir)
	}
	entries, err := fs.ReadDir(r.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		a := &addon{path: entry.Name()}
		switch {
		case strings.HasPrefix(a.path, "."):
			continue
		case !entry.IsDir() && filepath.Ext(a.path) == archiveType:
			a.packed = true
			a.fsys, a.err = r.unpack(ctx, a.path)
		default:
			a.fsys, err = fs.Sub(r.root.FS(), a.path)
			if err != nil || !isAddon(a.fsys) {
				continue
			}
		}
		if a.err == nil {
			a.loaded, a.err = catalog.Load(a.fsys)
		}
		r.addons = append(r.addons, a)
	}
	if len(r.addons) == 0 {
		return fmt.Errorf("%s has no addons; an addon is a directory with meta.yaml, chart/ and plans/, or an archive of one", r.dir)
	}
	return nil
}

func isAddon(fsys fs.FS) bool {
	for _, name := range []string{"meta.yaml", "chart", "plans"} {
		if _, err := fs.Stat(fsys, name); err == nil {
			return true
		}
	}
	return false
}

func (r *Repository) unpack(ctx context.Context, path string) (fs.FS, error) {
	file, err := r.root.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return catalog.Unpack(ctx, file, catalog.DefaultLimits)
}

// address returns the name under which the operator requests the addon, NAME-VERSION for a directory and
// NAME-VERSION.tgz for an archive. The operator makes this name from the addon's entry in index.yaml.
func (a *addon) address() string {
	address := a.loaded.Addon.Name + "-" + catalog.NormalizeVersion(a.loaded.Addon.Version)
	if a.packed {
		return address + archiveType
	}
	return address
}

// valid returns an error if an addon cannot be loaded, or if the method conflicts returns a reason for an addon.
func (r *Repository) valid() error {
	for _, a := range r.addons {
		if a.err != nil {
			return fmt.Errorf("addon %s is invalid: %w; see addon-operator addons lint %s", a.path, a.err, r.dir)
		}
		if wrong := r.conflicts(a); len(wrong) > 0 {
			return fmt.Errorf("addon %s: %s", a.path, wrong[0])
		}
	}
	return nil
}

// conflicts returns the reasons why the addon a cannot be in the repository: its name is invalid, or it has the ID, or
// the name and version, of an addon before it. A directory and an archive with the same name and version do not
// conflict.
func (r *Repository) conflicts(a *addon) (wrong []string) {
	mine := &a.loaded.Addon
	if err := catalog.CheckName(mine.Name); err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, other := range r.addons {
		if other == a {
			return wrong
		}
		if other.loaded == nil {
			continue
		}
		theirs := &other.loaded.Addon
		sameVersion := mine.Name == theirs.Name && catalog.NormalizeVersion(mine.Version) == catalog.NormalizeVersion(theirs.Version)
		switch {
		case sameVersion && a.packed == other.packed:
			wrong = append(wrong, fmt.Sprintf("it has the name %s and version %s of %s", mine.Name, mine.Version, other.path))
		case mine.ID == theirs.ID && !sameVersion:
			wrong = append(wrong, fmt.Sprintf("it has the ID %s of %s; give each version of an addon an ID of its own", mine.ID, other.path))
		}
	}
	return wrong
}

// write atomically replaces the content of the file called name in dir with data. It creates dir if necessary.
func write(dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, "."+name+"-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // after the rename, there is nothing to remove
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, name))
}
