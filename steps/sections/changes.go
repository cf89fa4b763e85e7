package sections

import (
	"encoding/json"
	"strconv"

	"addon-operator/internal/redact"
	"addon-operator/internal/values"
	"addon-operator/store"
)

// Changes collects the changes of values, for the history.
type Changes struct {
	without redact.Redactor
	all     store.ValueChanges
}

// NewChanges returns an empty collection. The collection replaces each secret in a value by a mark with a keyed hash.
// The argument secret is the key of these hashes; if it is nil, the marks have no hashes.
func NewChanges(secret []byte) *Changes {
	return &Changes{without: redact.Redactor{Secret: secret, Undated: true, Texts: true}}
}

// Add adds the changes of the section with this key. The arguments before and after are the values of the section.
func (c *Changes) Add(key string, before, after any) error {
	changes, err := values.Diff(key, before, after)
	if err != nil {
		return err
	}
	for _, change := range changes {
		recorded := store.ValueChange{Path: change.Path}
		if !change.Added {
			if recorded.Old, err = c.text(change.Path, change.Old); err != nil {
				return err
			}
		}
		if !change.Removed {
			if recorded.New, err = c.text(change.Path, change.New); err != nil {
				return err
			}
		}
		c.all.Add(recorded)
	}
	return nil
}

// text returns the value at path as JSON, with its secrets replaced. It also replaces secrets that are parts of
// texts, such as the password in a URL. If there is a key for hashes, different values have different texts.
func (c *Changes) text(path string, value any) (string, error) {
	shown, err := c.without.Value(path, value)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return "", err
	}
	whole, err := json.Marshal(value)
	return store.ValueText(string(text), c.without.Hash(string(whole))), err
}

// AddConfig adds the changes of the section with this key that result from a change of the ConfigMap from layers.Config
// to config. It compares the merged values.
func (c *Changes) AddConfig(layers values.Layers, key string, config values.Config) error {
	before, _ := layers.Section(key)
	layers.Config = config
	after, _ := layers.Section(key)
	return c.Add(key, before, after)
}

// AddFlag adds the change of an enabled flag.
func (c *Changes) AddFlag(flag string, before, after values.Config) {
	c.all.Add(store.ValueChange{Path: "/" + flag, Old: flagText(before, flag), New: flagText(after, flag)})
}

// flagText returns the value of an enabled flag as JSON, or "" if config does not have the flag.
func flagText(config values.Config, flag string) string {
	value, ok := config.Flags[flag]
	if !ok {
		return ""
	}
	return strconv.FormatBool(value)
}

// Recorded returns the changes; nil if there are none.
func (c *Changes) Recorded() *store.ValueChanges {
	if len(c.all.List) == 0 {
		return nil
	}
	return &c.all
}
