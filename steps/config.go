package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
)

// writtenByHook stands for the version of a ConfigMap that was absent before a
// hook made it, until it is read: there is one.
const writtenByHook = "0"

// configEffect is the kind of effect that writes one section of the ConfigMap.
const configEffect = "ConfigMap section"

// A configWrite is a change of the ConfigMap that a hook wants: of one section, of flags,
// or of both. Without Ops the section stays as it is.
type configWrite struct {
	Section string      `json:"section"`
	Ops     []values.Op `json:"ops"`
	// Before and After are the checksums of the section without and with Ops.
	Before string `json:"before"`
	After  string `json:"after"`
	// Now holds the section with Ops, and nothing else.
	Now values.Values `json:"now"`
	// Flags are the flags to set, or to remove where they are nil.
	Flags map[string]*bool `json:"flags,omitempty"`
}

// effect returns the effect that makes the change.
func (w configWrite) effect() (workflow.Effect, error) {
	data, err := json.Marshal(w)
	return workflow.Effect{Kind: configEffect, Data: data}, err
}

// planConfig returns what ops make of section of config, and which flags become others;
// nothing where nothing changes.
func planConfig(config values.Config, section string, ops []values.Op, flags map[string]*bool) (*configWrite, error) {
	w, err := planSection(config, section, ops)
	if err != nil {
		return nil, err
	}
	flags = maps.Clone(flags)
	maps.DeleteFunc(flags, func(flag string, value *bool) bool { return isSet(config.Flags, flag, value) })
	if len(flags) == 0 {
		return w, nil
	}
	if w == nil {
		w = &configWrite{Section: section}
	}
	w.Flags = flags
	return w, nil
}

// isSet reports whether a flag already is as a hook wants it, nil being absent.
func isSet(flags map[string]bool, flag string, want *bool) bool {
	value, set := flags[flag]
	return set == (want != nil) && (want == nil || *want == value)
}

func planSection(config values.Config, section string, ops []values.Op) (*configWrite, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	w := &configWrite{Section: section, Ops: ops}
	before := config.Sections[section]
	now, err := patched(before, section, ops)
	if err != nil {
		return nil, err
	}
	w.Now = values.Values{section: now}
	if w.Before, err = values.Checksum(before); err != nil {
		return nil, err
	}
	if w.After, err = values.Checksum(now); err != nil || w.Before == w.After {
		return nil, err
	}
	return w, nil
}

func patched(before any, section string, ops []values.Op) (any, error) {
	document := values.Values{}
	if before != nil {
		document[section] = before
	}
	document, err := values.Apply(document, ops)
	if err != nil {
		return nil, err
	}
	return document[section], nil
}

// A ConfigMap is the operator's ConfigMap and its content in force. Content comes into force in one
// transaction with the record of it, and only after the schemas accepted it.
type ConfigMap struct {
	db      *store.DB
	log     *logger
	object  *kube.ConfigMap
	modules *Modules
	changes Changes
}

// keepConfig puts in force what has been written to the ConfigMap, so that its
// change is known when the ConfigMap's watch tells of it. It reports whether that is
// another than was in force.
func (cm *ConfigMap) keepConfig(tx *store.Tx, w configWrite) (changed bool, err error) {
	config, record, err := applied(tx)
	if err != nil {
		return false, err
	}
	if config.Sections == nil {
		config.Sections = values.Values{}
	}
	if config.Flags == nil {
		config.Flags = map[string]bool{}
	}
	if len(w.Ops) > 0 {
		before, _ := config.Section(w.Section)
		config.Sections[w.Section] = w.Now[w.Section]
		if changed, err = values.Changed(before, w.Now[w.Section]); err != nil {
			return false, err
		}
	}
	for flag, value := range w.Flags {
		changed = changed || !isSet(config.Flags, flag, value)
		delete(config.Flags, flag)
		if value != nil {
			config.Flags[flag] = *value
		}
	}
	if record.ResourceVersion == "" {
		record.ResourceVersion = writtenByHook
	}
	return changed, cm.saveApplied(tx, config, record.ResourceVersion)
}

// doConfig writes a hook's section and flags to the ConfigMap. A section that is what it
// is to become is left alone; one that somebody changed meanwhile is patched as it is now.
func (cm *ConfigMap) doConfig(ctx context.Context, _ workflow.Task, data json.RawMessage) error {
	var w configWrite
	if err := json.Unmarshal(data, &w); err != nil {
		return workflow.Refused(err)
	}
	err := cm.writeConfig(ctx, w)
	if err != nil && (kube.IsRefused(err) || errors.Is(err, errUnfit)) {
		return workflow.Refused(err)
	}
	return err
}

// writeConfig changes the ConfigMap as the hook wants, in one request.
func (cm *ConfigMap) writeConfig(ctx context.Context, w configWrite) error {
	layers := values.Layers{Static: cm.modules.Disk().Static, Schemas: cm.modules.loaded()}
	_, err := cm.object.Update(ctx, func(data map[string]string) error {
		text, changed, err := w.section(data, layers)
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

// errUnfit tells that a patch no longer fits the ConfigMap.
var errUnfit = errors.New("the patch does not fit the ConfigMap as it is now")

// section returns the text that the section has to have in data, and whether it
// has another now. The schemas are those of layers.
func (w configWrite) section(data map[string]string, layers values.Layers) (text string, changed bool, err error) {
	live, err := values.ParseConfig(data)
	if err != nil {
		return "", false, fmt.Errorf("%w: the ConfigMap is invalid: %w", errUnfit, err)
	}
	if len(w.Ops) == 0 {
		return "", false, nil
	}
	now := live.Sections[w.Section]
	sum, err := values.Checksum(now)
	if err != nil || sum == w.After {
		return "", false, err
	}
	next := w.Now[w.Section]
	if sum != w.Before {
		if next, err = patched(now, w.Section, w.Ops); err != nil {
			return "", false, fmt.Errorf("%w: %w", errUnfit, err)
		}
		layers.Config = live
		if err := layers.CheckConfig(w.Section, next); err != nil {
			return "", false, fmt.Errorf("%w: %w", errUnfit, err)
		}
	}
	text, err = values.FormatSection(next)
	return text, true, err
}

// leave takes back into now what the write has just changed of before.
func (w configWrite) leave(before values.Config, now *values.Config) error {
	for flag, value := range w.Flags {
		if !isSet(now.Flags, flag, value) {
			continue
		}
		delete(now.Flags, flag)
		if old, had := before.Flags[flag]; had {
			if now.Flags == nil {
				now.Flags = map[string]bool{}
			}
			now.Flags[flag] = old
		}
	}
	if len(w.Ops) == 0 {
		return nil
	}
	sum, err := values.Checksum(now.Sections[w.Section])
	if err != nil || sum != w.After {
		return err
	}
	delete(now.Sections, w.Section)
	if old, had := before.Sections[w.Section]; had {
		now.Sections[w.Section] = old
	}
	return nil
}

// saveApplied puts c in force.
func (cm *ConfigMap) saveApplied(tx *store.Tx, c values.Config, resourceVersion string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	tx.OnCommit(cm.changes.ConfigApplied)
	tx.OnCommit(cm.changes.ProblemsChanged)
	return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: resourceVersion, Config: b, At: tx.Now()})
}
