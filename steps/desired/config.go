package desired

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

// writtenByHook is stored instead of a resource version if it is not known which version of the ConfigMap has the
// content in force. This is the case after a hook has created the ConfigMap, or has written it while other content was
// put in force. The trigger for the ConfigMap compares the content in force with the ConfigMap. If they differ, step 16
// puts the content of the ConfigMap in force, with its version.
const writtenByHook = "0"

// ConfigEffect is the kind of the effect that writes one section of the ConfigMap.
const ConfigEffect = "ConfigMap section"

// EffectOf returns the effect that makes the change w of the ConfigMap.
func EffectOf(w sections.ConfigWrite) (workflow.Effect, error) {
	data, err := json.Marshal(w)
	return workflow.Effect{Kind: ConfigEffect, Data: data}, err
}

// A ConfigMap reads and writes the operator's ConfigMap, and puts its content in force. Content is in force after the
// commit of the transaction that records it. Only content that the schemas accept may be recorded.
type ConfigMap struct {
	db      *store.DB
	log     *oncelog.Logger
	object  *kube.ConfigMap
	modules *Modules
	changes ConfigChanges
}

// ConfigChanges is notified after commits that may have added or removed a problem of the ConfigMap.
type ConfigChanges interface {
	// ProblemsChanged is called after a commit that may have added or removed a problem of the
	// ConfigMap.
	ProblemsChanged()
}

// NewConfigMap returns a ConfigMap that reads and writes object. It calls the argument changes when the problems of
// the ConfigMap may have changed.
func NewConfigMap(db *store.DB, log *oncelog.Logger, object *kube.ConfigMap, modules *Modules, changes ConfigChanges) *ConfigMap {
	return &ConfigMap{db: db, log: log, object: object, modules: modules, changes: changes}
}

// Read reads the current content of the object.
func (cm *ConfigMap) Read(ctx context.Context) (kube.Content, error) { return cm.object.Read(ctx) }

// Name returns the kind and the name of the object.
func (cm *ConfigMap) Name() string { return cm.object.String() }

// SaveWritten puts in force a change that a hook has written to the ConfigMap. So the watch of the ConfigMap does not
// report this change as new content. If other content of the same section or flag was put in force while the hook ran,
// SaveWritten keeps that content; see [sections.ConfigWrite.Apply]. The result changed says whether the content in
// force has changed.
func (cm *ConfigMap) SaveWritten(tx *store.Tx, w sections.ConfigWrite) (changed bool, err error) {
	config, record, err := sections.LoadApplied(tx)
	if err != nil {
		return false, err
	}
	changed, left, err := w.Apply(&config)
	if err != nil {
		return false, err
	}
	switch {
	case record.ResourceVersion == "":
		record.ResourceVersion, record.OnlyHooks = writtenByHook, true
	case left:
		record.ResourceVersion = writtenByHook
	}
	return changed, cm.save(tx, config, record)
}

// Do writes a section and flags to the ConfigMap, as the hook's patch requests. It writes nothing if the ConfigMap
// already has the wanted content. If the section was changed after the hook ran, Do applies the patch to the current
// section. The error is final, as [workflow.Refused] marks it, if the patch does not fit that section or the API server
// rejects the write.
func (cm *ConfigMap) Do(ctx context.Context, _ workflow.Task, data json.RawMessage) error {
	var w sections.ConfigWrite
	if err := json.Unmarshal(data, &w); err != nil {
		return workflow.Refused(err)
	}
	err := cm.writeConfig(ctx, w)
	if err != nil && (kube.IsRefused(err) || errors.Is(err, sections.ErrUnfit)) {
		return workflow.Refused(err)
	}
	return err
}

// writeConfig writes the section and the flags of w to the ConfigMap in one update.
func (cm *ConfigMap) writeConfig(ctx context.Context, w sections.ConfigWrite) error {
	layers := values.Layers{Static: cm.modules.Disk().Static, Schemas: cm.modules.Schemas()}
	_, err := cm.object.Update(ctx, func(data map[string]string) error {
		text, changed, err := w.Text(data, layers)
		if err != nil {
			return err
		}
		if changed {
			data[w.Section] = text
		}
		for flag, value := range w.Flags {
			delete(data, flag)
			if value != nil {
				data[flag] = strconv.FormatBool(*value)
			}
		}
		return nil
	})
	return err
}

// SaveApplied puts c in force. This is the content that the ConfigMap has at this resourceVersion.
func (cm *ConfigMap) SaveApplied(tx *store.Tx, c values.Config, resourceVersion string) error {
	return cm.save(tx, c, store.AppliedConfig{ResourceVersion: resourceVersion})
}

// SaveOfHooks is like [ConfigMap.SaveApplied], for content that only hooks have written.
func (cm *ConfigMap) SaveOfHooks(tx *store.Tx, c values.Config, resourceVersion string) error {
	return cm.save(tx, c, store.AppliedConfig{ResourceVersion: resourceVersion, OnlyHooks: true})
}

// save puts c in force. The argument record has the resource version of c, and says whether only hooks have written c.
func (cm *ConfigMap) save(tx *store.Tx, c values.Config, record store.AppliedConfig) (err error) {
	if record.Config, err = json.Marshal(c); err != nil {
		return err
	}
	if record.Changed, err = sectionsChanged(tx, c); err != nil {
		return err
	}
	record.At = tx.Now()
	tx.OnCommit(cm.changes.ProblemsChanged)
	return store.Save(tx, store.AppliedConfigKey(), record)
}

// sectionsChanged returns the time of the last change of each section of c. For a section that differs from the
// section in force, this is the current time.
func sectionsChanged(tx *store.Tx, c values.Config) (map[string]time.Time, error) {
	before, record, err := sections.LoadAppliedOrLost(tx)
	if err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	for key, section := range c.Sections {
		at[key] = tx.Now().Truncate(time.Second)
		old, had := before.Sections[key]
		changed, err := values.Changed(old, section)
		if err != nil {
			return nil, err
		}
		if known, dated := record.Changed[key]; had && !changed {
			if !dated {
				known = record.At.Truncate(time.Second) // the record has no time of this section
			}
			at[key] = known
		}
	}
	return at, nil
}

// Refusal returns an error if the new content of the ConfigMap is invalid. The argument before is the content in
// force, and the argument now is the new content. Refusal checks the global section, the sections of the modules in
// the list enabled, and the sections of the modules that the new content enables.
func (cm *ConfigMap) Refusal(before, now values.Config, enabled []string) error {
	l := values.Layers{Static: cm.modules.Disk().Static, Config: before, Schemas: cm.modules.Schemas()}
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

// EditConfig returns the kubectl command with which a person edits the ConfigMap.
func (cm *ConfigMap) EditConfig() string {
	text := strings.Fields(cm.object.String()) // "ConfigMap namespace/name"
	namespace, name, _ := strings.Cut(text[len(text)-1], "/")
	return "kubectl -n " + namespace + " edit configmap " + name
}

// LeaveAnnounced reverts, in the argument now, the changes that are effects in journals. The argument now is content
// that was read from the ConfigMap. The argument before is the content in force. The changes may already be written to
// the ConfigMap, but each is put in force by the transition that ends the task of its hook.
func LeaveAnnounced(tx *store.Tx, before values.Config, now *values.Config) error {
	for k := range tx.Range(store.At(store.Journal)) {
		o, _, err := store.Load[workflow.Outcome](tx, k)
		if err != nil {
			return err
		}
		for _, e := range o.Effects {
			var w sections.ConfigWrite
			if e.Kind != ConfigEffect {
				continue
			}
			if err := json.Unmarshal(e.Data, &w); err != nil {
				return err
			}
			if err := w.Revert(before, now); err != nil {
				return err
			}
		}
	}
	return nil
}
