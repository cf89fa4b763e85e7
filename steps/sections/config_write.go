package sections

import (
	"errors"
	"fmt"
	"maps"

	"addon-operator/internal/values"
)

// A ConfigWrite is a change of the ConfigMap that a hook requests. It changes one section, or flags, or both. If Ops
// is empty, it does not change the section.
type ConfigWrite struct {
	Section string      `json:"section"`
	Ops     []values.Op `json:"ops"`
	// Before and After are the checksums of the section before and after Ops.
	Before string `json:"before"`
	After  string `json:"after"`
	// The field Now has only one section: the result of Ops.
	Now values.Values `json:"now"`
	// Flags has the flags to set. A flag whose value is nil is removed.
	Flags map[string]*bool `json:"flags,omitempty"`
	// Had has the previous values of those Flags that were set.
	Had map[string]bool `json:"had,omitempty"`
}

// PlanConfigWrite returns the ConfigWrite that applies ops to a section of config and sets flags. Flags that already
// have the wanted value are left out. It returns nil if the write would change nothing.
func PlanConfigWrite(config values.Config, section string, ops []values.Op, flags map[string]*bool) (*ConfigWrite, error) {
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
		w = &ConfigWrite{Section: section}
	}
	w.Flags, w.Had = flags, maps.Clone(config.Flags)
	maps.DeleteFunc(w.Had, func(flag string, _ bool) bool { _, changes := flags[flag]; return !changes })
	return w, nil
}

// isSet reports whether a flag already has the wanted value. If want is nil, the flag must be absent.
func isSet(flags map[string]bool, flag string, want *bool) bool {
	value, set := flags[flag]
	return set == (want != nil) && (want == nil || *want == value)
}

func planSection(config values.Config, section string, ops []values.Op) (*ConfigWrite, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	w := &ConfigWrite{Section: section, Ops: ops}
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

// Apply makes the change in config, which is the content in force, and reports whether it has changed config. If the
// section or a flag differs from what the hook received, Apply does not change it: the ConfigMap was changed and read
// while the hook ran. The result left reports whether such a section or flag differs from the wanted one. In this case,
// config may be older than the ConfigMap. The caller must not record the resource version of the ConfigMap, so that the
// trigger for the ConfigMap compares the ConfigMap with config.
func (w ConfigWrite) Apply(config *values.Config) (changed, left bool, err error) {
	if config.Sections == nil {
		config.Sections = values.Values{}
	}
	if config.Flags == nil {
		config.Flags = map[string]bool{}
	}
	if len(w.Ops) > 0 {
		if changed, left, err = w.applySection(config); err != nil {
			return false, false, err
		}
	}
	for flag, value := range w.Flags {
		if isSet(config.Flags, flag, value) {
			continue
		}
		had, was := w.Had[flag]
		if now, set := config.Flags[flag]; now != had || set != was {
			left = true
			continue
		}
		changed = true
		delete(config.Flags, flag)
		if value != nil {
			config.Flags[flag] = *value
		}
	}
	return changed, left, nil
}

// applySection replaces the section in config by the result of w.Ops, if it is the section that the hook received.
func (w ConfigWrite) applySection(config *values.Config) (changed, left bool, err error) {
	sum, err := values.Checksum(config.Sections[w.Section])
	if err != nil || sum != w.Before {
		return false, sum != w.After, err
	}
	before, _ := config.Section(w.Section)
	config.Sections[w.Section] = w.Now[w.Section]
	changed, err = values.Changed(before, w.Now[w.Section])
	return changed, false, err
}

// ErrUnfit means that a patch cannot be applied to the current content of the ConfigMap.
var ErrUnfit = errors.New("the patch does not fit the ConfigMap as it is now")

// Text returns the text that the section must have in the ConfigMap, and whether it must be changed. The argument
// data is the current content of the ConfigMap, and layers has the schemas. Text does not read the other keys of data,
// so an invalid key does not stop the hooks of other sections. If the section need not be changed, the text is empty.
func (w ConfigWrite) Text(data map[string]string, layers values.Layers) (text string, changed bool, err error) {
	if len(w.Ops) == 0 {
		return "", false, nil
	}
	own := maps.Clone(data)
	maps.DeleteFunc(own, func(key, _ string) bool { return key != w.Section })
	live, err := values.ParseConfig(own)
	if err != nil {
		return "", false, fmt.Errorf("%w: the section is invalid: %w", ErrUnfit, err)
	}
	now := live.Sections[w.Section]
	sum, err := values.Checksum(now)
	if err != nil || sum == w.After {
		return "", false, err
	}
	next := w.Now[w.Section]
	if sum != w.Before {
		if next, err = patched(now, w.Section, w.Ops); err != nil {
			return "", false, fmt.Errorf("%w: %w", ErrUnfit, err)
		}
		layers.Config = live
		if err := layers.CheckConfig(w.Section, next); err != nil {
			return "", false, fmt.Errorf("%w: %w", ErrUnfit, err)
		}
	}
	text, err = values.FormatSection(next)
	return text, true, err
}

// Revert undoes the change w in the argument now: each flag and the section of w get the value that they have in the
// argument before. If the value of a flag or of the section is not the value that w has written, it stays unchanged.
func (w ConfigWrite) Revert(before values.Config, now *values.Config) error {
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
