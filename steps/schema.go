package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"addon-operator/internal/module"
	"addon-operator/internal/schema"
	"addon-operator/internal/values"
	"addon-operator/store"
)

// schemasDir is where modules and global hooks have their schemas.
const schemasDir = "openapi"

// loadSchemas returns the schemas of the modules of set and of the global section,
// by key. A module whose schemas cannot be used is broken from then on. The error is
// of the global schemas: nothing can run without them.
func (d *Modules) loadSchemas(set module.Set) (map[string]*schema.Set, error) {
	loaded := map[string]*schema.Set{}
	for i := range set.Modules {
		m := &set.Modules[i]
		if m.Broken != nil {
			continue
		}
		schemas, err := d.schemaFiles.Load(filepath.Join(m.Path, schemasDir))
		if err != nil {
			m.Broken = err
			continue
		}
		loaded[m.Key] = schemas
	}
	if d.globalHooks == "" {
		return loaded, nil
	}
	schemas, err := d.schemaFiles.Load(filepath.Join(d.globalHooks, schemasDir))
	loaded[values.Global] = schemas
	return loaded, err
}

// wantValues breaks the modules of set that have no values.yaml. The error names the
// directories that have none.
func (d *Modules) wantValues(set module.Set) error {
	const remedy = "add it, it may be empty, or start without --strict-check-values-mode-enabled"
	missing := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "values.yaml"))
		return errors.Is(err, fs.ErrNotExist)
	}
	for i := range set.Modules {
		if m := &set.Modules[i]; m.Broken == nil && missing(m.Path) {
			m.Broken = fmt.Errorf("%s has no values.yaml: %s", m.Path, remedy)
		}
	}
	var errs []error
	for _, dir := range d.dirs {
		if missing(dir) {
			errs = append(errs, fmt.Errorf("modules directory %s has no values.yaml: %s", dir, remedy))
		}
	}
	return errors.Join(errs...)
}

// usable returns why the code of a module, or for no module the global one, cannot
// be used; nil when it can.
func (d *Modules) usable(module string) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.noGlobal != nil {
		return d.noGlobal
	}
	m, found := d.disk.Find(module)
	if module == "" || !found {
		return nil
	}
	return m.Broken
}

// loaded returns the schemas loaded last, by the key of the section. They are not
// to be changed.
func (d *Modules) loaded() map[string]*schema.Set {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.schemas
}

// A fit is what operations of a hook come to.
type fit struct {
	before, after any // the section's merged values
	saved         []values.Saved
	noOp          []string // paths of what is not saved any more
}

// mostSaved is how many operations of a section are saved before those that remove
// what is not there are not. A hook that adds and removes names without end would
// leave as many; of others they stay, for the time there is something again.
const mostSaved = 1000

// fitting returns what a section comes to once ops are taken in. It fails where
// they cannot be done, or lead to values that the schema does not take.
func fitting(l values.Layers, section string, ops []values.Op, by string) (f fit, err error) {
	f.before, _ = l.Section(section)
	if _, err := values.Apply(values.Values{section: f.before}, ops); err != nil {
		return f, err
	}
	f.saved = values.Fold(l.Saved[section], ops, by)
	l.Saved = map[string][]values.Saved{section: f.saved}
	if len(f.saved) > mostSaved {
		f.noOp = l.NoOp(section)
		f.saved = values.Without(f.saved, f.noOp)
		l.Saved[section] = f.saved
	}
	f.after, _ = l.Section(section)
	return f, l.CheckMerged(section, f.after, f.before)
}

// refusal says why content of the ConfigMap is not taken: what is in force is before,
// and modules are enabled. Of modules that are not, sections are not looked at.
func (cm *ConfigMap) refusal(before, now values.Config, enabled []string) error {
	l := values.Layers{Static: cm.modules.Disk().Static, Config: before, Schemas: cm.modules.loaded()}
	keys := map[string]bool{}
	for key := range now.Sections {
		keys[key] = key == values.Global || now.Flags[values.Flag(key)] || slices.Contains(enabled, values.Kebab(key))
	}
	for flag, on := range now.Flags {
		if key := strings.TrimSuffix(flag, values.Flag("")); on {
			keys[key] = true
		}
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !keys[key] {
			continue
		}
		if err := l.CheckConfig(key, now.Sections[key]); err != nil {
			errs = append(errs, fmt.Errorf("ConfigMap key %q: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// warnUnknown says which keys of the ConfigMap belong to no module.
func (cm *ConfigMap) warnUnknown(c values.Config) {
	modules := []string{values.Global}
	for _, m := range cm.modules.Disk().Modules {
		if m.Key != "" {
			modules = append(modules, m.Key)
		}
	}
	for _, key := range unknownKeys(modules, c) {
		cm.log.once(zerolog.WarnLevel, fmt.Sprintf("%s: key %q has no effect: %s", cm.object, key, noModule(key, modules)))
	}
}

// unfit takes out of l the saved operations that schemas do not take any more, and
// returns them by section.
func (v *Values) unfit(l values.Layers) map[string][]values.Saved {
	all := map[string][]values.Saved{}
	for section, saved := range l.Saved {
		unfit := l.Unfit(section)
		if len(unfit) == 0 {
			continue
		}
		all[section] = unfit
		l.Saved[section] = without(saved, unfit)
		for _, op := range unfit {
			v.log.Warn().Str("hook", op.Hook).Str("operation", op.Op.Op).Str("path", op.Path).
				Str("schema", l.Schemas[section].Values.File()).Msg("a saved values operation is dropped: the schema does not take it any more")
		}
	}
	return all
}

// without returns saved without unfit.
func without(saved, unfit []values.Saved) []values.Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s values.Saved) bool {
		return slices.ContainsFunc(unfit, func(u values.Saved) bool {
			return s.Path == u.Path && s.Hook == u.Hook && s.Op.Op == u.Op.Op && string(s.Value) == string(u.Value)
		})
	})
}

// drop takes operations that are unfit out of the store.
func drop(tx *store.Tx, unfit map[string][]values.Saved) error {
	for _, section := range slices.Sorted(maps.Keys(unfit)) {
		saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
		if err != nil {
			return err
		}
		if err := store.Save(tx, store.SavedKey(section), without(saved, unfit[section])); err != nil {
			return err
		}
	}
	return nil
}

// dropped says for the history which operations were taken away.
func dropped(unfit map[string][]values.Saved) string {
	var paths []string
	for _, section := range slices.Sorted(maps.Keys(unfit)) {
		for _, s := range unfit[section] {
			paths = append(paths, s.Path)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return ", saved values dropped that schemas do not take any more: " + strings.Join(paths, ", ")
}
