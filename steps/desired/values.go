package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

// Values merges the values and the enabled flags of modules. The layers of a section are always merged in the same
// order: the files of the last scan, the content of the ConfigMap in force, the patches of hooks. A patch is saved
// only if the schemas accept its result.
type Values struct {
	db      *store.DB
	log     *oncelog.Logger
	modules *Modules
	applied *sections.Applied
}

// NewValues returns the values of modules. The argument db has the patches of hooks, and applied has the content of
// the ConfigMap.
func NewValues(db *store.DB, log *oncelog.Logger, modules *Modules, applied *sections.Applied) *Values {
	return &Values{db: db, log: log, modules: modules, applied: applied}
}

// LayersOf returns the layers of values for the global section and the sections with these keys. The layers are the
// files of the last scan, and the content of the ConfigMap and the patches that tx reads. The caller must not change
// the layers.
func (v *Values) LayersOf(tx *store.Tx, keys ...string) (values.Layers, error) {
	if err := v.modules.Usable(""); err != nil {
		return values.Layers{}, err
	}
	config, err := v.applied.InForce(tx)
	if err != nil {
		return values.Layers{}, err
	}
	disk, schemas := v.modules.withSchemas()
	l := values.Layers{Static: disk.Static, Files: disk.Files, Config: config, Saved: map[string][]values.Saved{}, Schemas: schemas}
	for _, key := range append(slices.Clone(keys), values.Global) {
		saved, ok, err := store.Load[[]values.Saved](tx, store.SavedKey(key))
		if err != nil {
			return l, err
		}
		if ok {
			l.Saved[key] = saved
		}
	}
	return l, nil
}

// Layers is like LayersOf, and also sets the time of the last change of each section of the ConfigMap.
func (v *Values) Layers(tx *store.Tx, keys ...string) (values.Layers, error) {
	l, err := v.LayersOf(tx, keys...)
	if err != nil {
		return l, err
	}
	_, record, err := sections.LoadApplied(tx)
	l.ConfigAt = record.Changed
	return l, err
}

// SavePatch saves the patch of a section. It reports whether the merged values of the section have changed. If the
// layers of the section are those against which the patch was checked after the run of the hook, SavePatch does not
// validate the result again. If the patch is not valid for the current values, the error is a [*PatchError]. The
// argument by is the name of the hook.
func (v *Values) SavePatch(tx *store.Tx, section string, patch sections.Patch, by string) (changed bool, err error) {
	key := store.SavedKey(section)
	base, err := v.Base(tx, section)
	if err != nil {
		return false, err
	}
	if base == patch.Base {
		saved, _, err := store.Load[[]values.Saved](tx, key)
		if err != nil {
			return false, err
		}
		merged := values.Dated(values.MergePatches(saved, patch.Values, by), saved, tx.Now().Truncate(time.Second))
		return patch.Changed, store.Save(tx, key, values.Without(merged, patch.NoOp))
	}
	layers, err := v.LayersOf(tx, section)
	if err != nil {
		return false, err
	}
	before := layers.Saved[section]
	f, err := sections.Try(layers, section, patch.Values, by)
	if err != nil {
		return false, &PatchError{err}
	}
	if changed, err = values.Changed(f.Before, f.After); err != nil {
		return false, err
	}
	return changed, store.Save(tx, key, values.Dated(f.Saved, before, tx.Now().Truncate(time.Second)))
}

// A PatchError says that values have changed since the hook read them, and that the patch of the hook is not valid for
// the changed values.
type PatchError struct{ err error }

func (e *PatchError) Error() string {
	return "$VALUES_JSON_PATCH_PATH does not fit the values, which have changed during the run: " + e.err.Error()
}

func (e *PatchError) Unwrap() error { return e.err }

// SaveFlags saves the enabled flags that a hook has set. It reports whether the value of a flag has changed. The
// argument by is the name of the hook.
func (v *Values) SaveFlags(tx *store.Tx, want map[string]*bool, by string) (changed bool, err error) {
	overrides, err := sections.Overrides(tx)
	if err != nil {
		return false, err
	}
	config, err := v.applied.InForce(tx)
	if err != nil {
		return false, err
	}
	merged := values.MergeEnabledOverrides(overrides, want, by, tx.Now().Truncate(time.Second))
	return !maps.Equal(sections.Flags(overrides, config), sections.Flags(merged, config)), store.Save(tx, store.EnabledOverridesKey(), merged)
}

// Base returns a checksum that changes if a layer of the section's values may have changed. Checksums of different
// epochs are always different.
func (v *Values) Base(tx *store.Tx, section string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, tx.Epoch(), v.modules.scanCount(), section) // a write to a hash returns no error
	for _, k := range []store.Key{store.SavedKey(section), store.AppliedConfigKey()} {
		text := tx.Get(k)
		_, _ = fmt.Fprintln(sum, len(text))
		_, _ = sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), v.modules.Usable("")
}

// Fingerprint returns a text that changes if the values of module or its section of the ConfigMap change. If module is
// empty, the text changes if the global section or a flag changes.
func (v *Values) Fingerprint(tx *store.Tx, module string) (string, error) {
	section := sections.Of(module)
	l, err := v.LayersOf(tx, section)
	if err != nil {
		return "", err
	}
	merged, _ := l.Section(section)
	config, _ := l.Config.Section(section)
	parts := []any{merged, config}
	if section == values.Global {
		overrides, err := sections.Overrides(tx)
		if err != nil {
			return "", err
		}
		parts = append(parts, sections.Flags(overrides, l.Config))
	}
	return values.Checksum(parts)
}

// Note returns a fingerprint of the values of module, as a note for the fan-out of the module's hooks.
// [Values.ChangedSince] compares the values with the note.
func (v *Values) Note(tx *store.Tx, module string) (json.RawMessage, error) {
	before, err := v.Fingerprint(tx, module)
	return json.RawMessage(strconv.Quote(before)), err
}

// ChangedSince reports whether the values of module have changed after the note was made.
func (v *Values) ChangedSince(tx *store.Tx, note json.RawMessage, module string) (bool, error) {
	before, err := strconv.Unquote(string(note))
	if err != nil {
		return false, errors.Join(errors.New("the note of the fan-out is invalid"), err)
	}
	now, err := v.Fingerprint(tx, module)
	return now != before, err
}

// Dropped describes what [Values.DropOutdated] has changed.
type Dropped struct {
	// Module says whether values of the module have changed. Global says whether global values or flags have changed.
	Module, Global bool
	// The field All is true if no patch or override of the hook's earlier code remains.
	All bool
}

// DropOutdated deletes the patches and overrides that earlier code of the hook of t has written, but the current code
// has not. It notes the deletion in the history. If the schema rejects a section without these patches, DropOutdated
// keeps the patches of this section.
func (v *Values) DropOutdated(tx *store.Tx, t workflow.Task) (d Dropped, err error) {
	subject := t.Subject
	by := sections.Author(subject.Module, subject.Hook)
	d.All = true
	var paths []string
	for _, section := range slices.Compact([]string{sections.Of(subject.Module), values.Global}) {
		layers, err := v.LayersOf(tx, section)
		if err != nil {
			return Dropped{}, err
		}
		saved := layers.Saved[section]
		left := sections.Current(saved, by)
		if len(left) == len(saved) {
			continue
		}
		before, _ := layers.Section(section)
		layers.Saved = map[string][]values.Saved{section: left}
		after, _ := layers.Section(section)
		if err := layers.CheckMerged(section, after, before); err != nil {
			v.log.Warn().Str("module", subject.Module).Str("hook", subject.Hook).Err(err).
				Msg("values patches of earlier code of the hook kept: the schema rejects the values without them")
			d.All = false
			continue
		}
		changed, err := values.Changed(before, after)
		if err != nil {
			return Dropped{}, err
		}
		if changed {
			d.Module, d.Global = d.Module || section != values.Global, d.Global || section == values.Global
		}
		for _, op := range saved {
			if op.Outdated && op.Hook == by {
				paths = append(paths, op.Path)
			}
		}
		if err := store.Save(tx, store.SavedKey(section), left); err != nil {
			return Dropped{}, err
		}
	}
	flags, changed, err := v.dropOverrides(tx, by)
	if err != nil {
		return Dropped{}, err
	}
	d.Global = d.Global || changed
	if paths = slices.Compact(append(paths, flags...)); len(paths) > 0 {
		t.Remark("values patches dropped, which only earlier code of the hook wrote: " + strings.Join(paths, ", "))
		tx.OnCommit(func() {
			v.log.Info().Str("module", subject.Module).Str("hook", subject.Hook).Str("paths", strings.Join(paths, ", ")).
				Msg("values patches dropped: earlier code of the hook wrote them, the present code does not")
		})
	}
	return d, nil
}

// dropOverrides deletes the enabled overrides that only earlier code of the hook has written. The argument by is the
// name of the hook. It returns their flags, and whether a flag has another value without them.
func (v *Values) dropOverrides(tx *store.Tx, by string) (dropped []string, changed bool, err error) {
	overrides, err := sections.Overrides(tx)
	if err != nil {
		return nil, false, err
	}
	left := maps.Clone(overrides)
	maps.DeleteFunc(left, func(flag string, o values.EnabledOverride) bool {
		if o.Hook != by || !o.Outdated {
			return false
		}
		dropped = append(dropped, "/"+flag)
		return true
	})
	if len(dropped) == 0 {
		return nil, false, nil
	}
	slices.Sort(dropped)
	config, err := v.applied.InForce(tx)
	if err != nil {
		return nil, false, err
	}
	return dropped, !maps.Equal(sections.Flags(overrides, config), sections.Flags(left, config)), store.Save(tx, store.EnabledOverridesKey(), left)
}

// Unfit removes from l the saved operations that the schemas no longer accept. It returns the removed operations by
// section, and logs them.
func (v *Values) Unfit(l values.Layers) sections.Unfit {
	all := sections.TakeUnfit(l)
	for section, unfit := range all {
		for _, op := range unfit {
			v.log.Warn().Str("hook", op.Hook).Str("operation", op.Op.Op).Str("path", op.Path).
				Str("schema", l.Schemas[section].Values.File()).Msg("saved values operation dropped: the schema no longer accepts it")
		}
	}
	return all
}

// WarnSkipped logs the saved operations that could not be applied when values were merged.
func (v *Values) WarnSkipped(skipped []values.Skipped) {
	for _, op := range skipped {
		v.log.Warn().Str("hook", op.Hook).Str("operation", op.Op.Op).Str("path", op.Path).Str("reason", op.Reason).
			Msg("a saved values operation no longer fits and is left out")
	}
}

// Wanted reports whether the module must be enabled: the enabled flags enable it now, and the last discovery has
// enabled it. The argument record is the record of the module.
func (v *Values) Wanted(tx *store.Tx, name string, record store.Module) (bool, error) {
	if !record.Enabled {
		return false, nil
	}
	d, err := v.Decide(tx, name)
	return d.Enabled, err
}

// Decide returns the decision of the enabled flags about the module. It does not consider the enabled script. For a
// module that is not on disk, it returns the zero Decision.
func (v *Values) Decide(tx *store.Tx, name string) (module.Decision, error) {
	m, ok := v.modules.Disk().Find(name)
	if !ok {
		return module.Decision{}, nil
	}
	config, err := v.applied.InForce(tx)
	if err != nil {
		return module.Decision{}, err
	}
	overrides, err := sections.Overrides(tx)
	return module.Decide(m, overrides, config), err
}

// CheckGlobal returns an error if the global values cannot be used; in this case, no step can run. It also returns
// the saved operations on global values that the schema no longer accepts.
func (v *Values) CheckGlobal() (unfit sections.Unfit, err error) {
	err = v.db.View(func(tx *store.Tx) error {
		layers, err := v.LayersOf(tx)
		if err != nil {
			return err
		}
		unfit = v.Unfit(layers)
		return layers.CheckFiles(values.Global)
	})
	return unfit, err
}
