package module

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/internal/values"
)

// An AddonModule is a module, made from a registered addon, that [WriteAddonModules] writes to disk.
type AddonModule struct {
	// Name is the name of the module.
	Name  string
	Addon Addon
	// Chart returns the files of the chart. It is called only if the directory of the module does
	// not contain them.
	Chart func() (fs.FS, error)
}

// WriteAddonModules writes modules, which must have different names, to the directory root. It removes all other
// modules from root. Each module is a symbolic link to the directory of its version. A complete version is not
// written again. If root does not exist, it is created.
//
// A version is synced to disk before the link points to it, and the link is replaced atomically. So a crash of the
// process or the machine leaves either the old module or the new one. If a module cannot be written, its directory
// stays unchanged, and the other modules are written. The error names each module that could not be written.
//
// inUse are the paths of module directories that other goroutines may read at the same time. These directories are
// kept, so that a reader finds all files of one version.
func WriteAddonModules(root string, modules []AddonModule, inUse ...string) error {
	return (&addonWriter{root: root}).run(modules, inUse)
}

// An addonWriter holds the state of one call of [WriteAddonModules].
type addonWriter struct {
	root string
	// step is called before each change of a file or directory, so that tests can simulate a crash there. If it
	// returns an error, the change is not made. It can be nil.
	step func(change, path string) error
}

// The names of temporary entries of root begin with these prefixes. A temporary entry is neither a module nor the
// directory of a version. The name of a version's directory has the form ".MODULE.CHECKSUM". It begins with none of the
// prefixes, because the name of a module contains no dot.
const (
	writingPrefix  = "..writing-"
	linkingPrefix  = "..linking-"
	removingPrefix = "..removing-"
)

func (w *addonWriter) run(modules []AddonModule, inUse []string) error {
	if err := w.change("make", w.root, func() error { return os.MkdirAll(w.root, 0o700) }); err != nil {
		return fmt.Errorf("directory of modules made from addons: %w", err)
	}
	errs := []error{w.removeOthers(modules, inUse)} // entries are removed first, because this frees space on a disk that may be full
	for _, m := range modules {
		if err := w.write(m); err != nil {
			errs = append(errs, fmt.Errorf("module %s from addon %s %s: %w", m.Name, m.Addon.Name, m.Addon.Version, err))
		}
	}
	return errors.Join(append(errs, w.removeOthers(modules, inUse))...)
}

// change calls step, if it is set, and then makes one change of a file or directory.
func (w *addonWriter) change(what, path string, do func() error) error {
	if w.step != nil {
		if err := w.step(what, path); err != nil {
			return err
		}
	}
	return do()
}

// removeOthers removes all entries of root except the links of modules, the versions that they point to, and inUse.
func (w *addonWriter) removeOthers(modules []AddonModule, inUse []string) error {
	kept := map[string]bool{}
	for _, path := range inUse {
		kept[filepath.Base(path)] = true
	}
	for _, m := range modules {
		kept[m.Name] = true
		if version, err := os.Readlink(filepath.Join(w.root, m.Name)); err == nil {
			kept[version] = true
		}
	}
	entries, err := os.ReadDir(w.root)
	if err != nil {
		return fmt.Errorf("directory of modules made from addons: %w", err)
	}
	var errs []error
	// The names of versions begin with a dot, so versions are first in entries. Links must be removed before them.
	for _, entry := range slices.Backward(entries) {
		if !kept[entry.Name()] {
			errs = append(errs, w.remove(entry.Name()))
		}
	}
	return errors.Join(errs...)
}

// remove removes an entry of root. It renames a directory before it removes the files in it. So a reader gets an
// error instead of an incomplete directory, and a crash leaves no incomplete version.
func (w *addonWriter) remove(name string) error {
	path := filepath.Join(w.root, name)
	if info, err := os.Lstat(path); err == nil && info.IsDir() && !strings.HasPrefix(name, removingPrefix) {
		next := filepath.Join(w.root, removingPrefix+name)
		if err := w.removeAll(next); err != nil {
			return err
		}
		if err := w.change("rename", path, func() error { return os.Rename(path, next) }); err != nil {
			return err
		}
		path = next
	}
	return w.removeAll(path)
}

func (w *addonWriter) removeAll(path string) error {
	return w.change("remove", path, func() error { return os.RemoveAll(path) })
}

// write writes the directory of the version of m if it is not complete, and makes the link of m point to it.
func (w *addonWriter) write(m AddonModule) error {
	about, err := json.MarshalIndent(m.Addon, "", "  ")
	if err != nil {
		return err
	}
	schema, err := m.Addon.configSchema()
	if err != nil {
		return err
	}
	digest := sha256.Sum256(append(slices.Clone(about), schema...))
	version := "." + m.Name + "." + hex.EncodeToString(digest[:8])
	if !isComplete(filepath.Join(w.root, version), about) {
		if err := w.writeVersion(m, version, map[string][]byte{
			filepath.Join(schemaDir, configSchemaFile): schema,
			valuesFile: []byte(values.Flag(values.Camel(m.Name)) + ": false\n"),
			addonFile:  about,
		}); err != nil {
			return err
		}
	}
	if before, err := os.Readlink(filepath.Join(w.root, m.Name)); err == nil && before == version {
		return nil
	}
	return w.link(m.Name, version)
}

// writeVersion writes the directory of a version. It replaces an incomplete directory of the same version.
func (w *addonWriter) writeVersion(m AddonModule, version string, own map[string][]byte) (err error) {
	chart, err := m.Chart()
	if err != nil {
		return err
	}
	next := filepath.Join(w.root, writingPrefix+m.Name)
	if err := w.removeAll(next); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.removeAll(next)) // frees the space, because the disk may be full
		}
	}()
	if err := w.copyDir(chart, filepath.Join(next, addonChartDir)); err != nil {
		return err
	}
	if err := w.makeDir(filepath.Join(next, schemaDir)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if err := w.writeFile(filepath.Join(next, name), own[name]); err != nil {
			return err
		}
	}
	if err := w.syncDirs(next); err != nil {
		return err
	}
	path := filepath.Join(w.root, version)
	if _, err := os.Lstat(path); err == nil {
		if err := w.remove(version); err != nil {
			return err
		}
	}
	if err := w.change("rename", next, func() error { return os.Rename(next, path) }); err != nil {
		return err
	}
	return w.sync(w.root)
}

// link makes the link of a module point to a version.
func (w *addonWriter) link(name, version string) error {
	path, next := filepath.Join(w.root, name), filepath.Join(w.root, linkingPrefix+name)
	if info, err := os.Lstat(path); err == nil && info.IsDir() { // an older version of the operator wrote directories, not links
		if err := w.remove(name); err != nil {
			return err
		}
	}
	if err := w.removeAll(next); err != nil {
		return err
	}
	if err := w.change("link", next, func() error { return os.Symlink(version, next) }); err != nil {
		return err
	}
	if err := w.change("rename", next, func() error { return os.Rename(next, path) }); err != nil {
		return err
	}
	return w.sync(w.root)
}

// copyDir copies all files of a file system to a directory, whose path is the argument "to".
func (w *addonWriter) copyDir(files fs.FS, to string) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := filepath.Join(to, filepath.FromSlash(name))
		if entry.IsDir() {
			return w.makeDir(path)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return w.writeFile(path, text)
	})
}

func (w *addonWriter) makeDir(path string) error {
	return w.change("make", path, func() error { return os.MkdirAll(path, 0o700) })
}

// writeFile writes a file and syncs it to disk.
func (w *addonWriter) writeFile(path string, text []byte) error {
	if err := w.change("write", path, func() error { return os.WriteFile(path, text, 0o600) }); err != nil {
		return err
	}
	return w.sync(path)
}

// syncDirs syncs the directories at and below root to disk.
func (w *addonWriter) syncDirs(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return w.sync(path)
	})
}

// sync syncs a file or directory to disk.
func (w *addonWriter) sync(path string) error {
	return w.change("sync", path, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// isComplete reports whether the directory dir contains all parts of a version. One part, the description of the addon,
// must be equal to the text in the argument named about. A part can be missing because somebody removed it by mistake.
func isComplete(dir string, about []byte) bool {
	there, err := os.ReadFile(filepath.Join(dir, addonFile))
	if err != nil || !bytes.Equal(there, about) {
		return false
	}
	for _, name := range []string{valuesFile, filepath.Join(schemaDir, configSchemaFile)} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	m := Module{Path: dir}
	return m.findAddon() == nil
}

const (
	schemaDir        = "openapi"
	configSchemaFile = "config-values.yaml"
)

// configSchema returns the schema of the module's section in the ConfigMap. It does not include the
// schema of the plan, because the section itself chooses the plan: see [Addon.HelmValues]. If the
// section names another version of the addon, the plan can be one of that version, which the schema
// does not know.
func (a *Addon) configSchema() ([]byte, error) {
	plans, err := json.Marshal(a.PlanNames())
	if err != nil {
		return nil, err
	}
	version, err := json.Marshal(a.Version)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{
		"type":                 "object",
		"additionalProperties": true,
		"properties": map[string]any{
			PlanKey:         map[string]any{"type": "string", "description": "plan of addon " + a.Name},
			AddonVersionKey: map[string]any{"type": "string", "minLength": 1, "description": "version of addon " + a.Name + "; the highest one without it"},
		},
		"x-deckhouse-validations": []any{map[string]any{
			"expression": fmt.Sprintf("!has(self.%s) || self.%s in %s || has(self.%s) && self.%s != %s", PlanKey, PlanKey, plans, AddonVersionKey, AddonVersionKey, version),
			"message":    fmt.Sprintf("%s must be one of %s, the plans of %s", PlanKey, strings.Join(a.PlanNames(), ", "), a),
		}},
	}, "", "  ")
}

// maxAddonModule is the maximum length of the name of a module made from an addon. The Helm release has the same
// name, and Helm has this limit.
const maxAddonModule = 53

// AddonModuleName returns the name of the module that is made from an addon with this name, or an error if the name
// is not valid for a module.
func AddonModuleName(addon string) (string, error) {
	name := strings.ToLower(values.Kebab(addon))
	if err := values.CheckName(name); err != nil {
		return name, err
	}
	if _, read := parseDirName(name, 0); read != name {
		return name, fmt.Errorf("its directory %q would be read as the directory of module %q with a number", name, read)
	}
	if len(name) > maxAddonModule {
		return name, fmt.Errorf("module name %q has %d characters, the limit for Helm releases is %d", name, len(name), maxAddonModule)
	}
	return name, nil
}
