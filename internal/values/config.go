package values

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v2"

	"addon-operator/internal/tree"
)

// Config is the parsed content of the operator's ConfigMap. The zero value means that the ConfigMap is absent or
// empty. A Config can be stored as JSON without loss.
type Config struct {
	// Sections has the sections of the ConfigMap, by key. The section of a module is a map or a list.
	Sections Values `json:"sections,omitempty"`
	// Flags has the values of the enabled flags in the ConfigMap, by flag.
	Flags map[string]bool `json:"flags,omitempty"`
	// Maintained has the keys of the sections of modules in maintenance mode. The operator does not change the
	// installed objects of these modules.
	Maintained map[string]bool `json:"maintained,omitempty"`
}

// ParseConfig parses the data of the operator's ConfigMap. The key "global" and the keys of modules contain YAML. A key
// with the suffix Enabled contains "true" or "false". A key with the suffix Maintenance contains the state of
// maintenance mode; if it contains a map or a list, it is the key of a module. If a key is invalid, the error names
// every invalid key and its correction. If ParseConfig returns an error, the Config is the zero value, because no part
// of an invalid ConfigMap may be used. ParseConfig does not check whether a module exists.
func ParseConfig(data map[string]string) (Config, error) {
	config := Config{Sections: Values{}, Flags: map[string]bool{}}
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if err := parseKey(&config, key, data[key]); err != nil {
			wrong = append(wrong, fmt.Errorf("ConfigMap key %q: %w", key, err))
		}
	}
	if len(wrong) > 0 {
		return Config{}, errors.Join(wrong...)
	}
	return config, nil
}

// parseKey parses one key of the ConfigMap.
func parseKey(c *Config, key, text string) error {
	if flagged, isFlag := strings.CutSuffix(key, enabledSuffix); isFlag && flagged != "" {
		if err := checkKey(flagged, enabledSuffix); err != nil {
			return err
		}
		return parseFlag(c, key, text)
	}
	maintained, ends := strings.CutSuffix(key, maintenanceSuffix)
	if ends && maintained != "" && isMaintenance(text) {
		if err := checkKey(maintained, maintenanceSuffix); err != nil {
			return err
		}
		return parseMaintenance(c, maintained, text)
	}
	if err := checkKey(key, ""); err != nil {
		return err
	}
	return parseSection(c, key, text)
}

func parseFlag(c *Config, key, text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf(`must be "true" or "false", in quotes, in lower case, without spaces or line breaks (got %.40q)`, text)
	}
	c.Flags[key] = text == "true"
	return nil
}

func parseSection(c *Config, key, text string) error {
	decode := decodeModule
	if key == Global {
		decode = decodeYAML
	}
	section, line, err := decode([]byte(text))
	if err != nil {
		if line > 0 {
			return fmt.Errorf("line %d: %w", line, err)
		}
		return err
	}
	switch section.(type) {
	case map[string]any:
		c.Sections[key] = section
		return nil
	case []any:
		if key != Global {
			c.Sections[key] = section
			return nil
		}
	case nil:
		if key == Global {
			c.Sections[key] = map[string]any{}
			return nil
		}
		return errors.New(`is empty: remove the key, or write "{}" for no settings`)
	}
	if key == Global {
		return fmt.Errorf("is %s: global values must be a YAML map", tree.Kind(section))
	}
	return fmt.Errorf("is %s: values of a module must be a YAML map or list; the module is switched on and off under %q",
		tree.Kind(section), Flag(key))
}

// NoReconciliation is the value of a Maintenance key that puts a module in maintenance mode.
const NoReconciliation = "NoResourceReconciliation"

func parseMaintenance(c *Config, key, text string) error {
	state, _, _ := decodeYAML([]byte(text)) // the error is nil, because isMaintenance has already decoded this text
	word, _ := state.(string)
	switch {
	case state == nil || state == "" || strings.EqualFold(word, "Managed"):
		return nil
	case !strings.EqualFold(word, NoReconciliation):
		return fmt.Errorf("holds %.40q: write %q, or nothing", text, NoReconciliation)
	}
	if c.Maintained == nil {
		c.Maintained = map[string]bool{}
	}
	c.Maintained[key] = true
	return nil
}

// isMaintenance reports whether text can be a state of maintenance mode. If text is a map or a list, the key is not a
// Maintenance key, but the section of a module whose name ends in "-maintenance".
func isMaintenance(text string) bool {
	v, _, err := decodeYAML([]byte(text))
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return err == nil
	}
}

// checkKey returns an error if key cannot be the key of a module's section or of the global section, because no name
// corresponds to it. If a similar key is valid, the error suggests that key, followed by suffix. The suffix is the rest
// of the key in the ConfigMap, such as Enabled.
func checkKey(key, suffix string) error {
	restored := Camel(Kebab(key))
	if key != "" && restored == key && plain(Kebab(key)) {
		return nil
	}
	if restored == "" || Camel(Kebab(restored)) != restored || !plain(Kebab(restored)) {
		return errors.New("is no module's name in camelCase: remove it")
	}
	return fmt.Errorf("is no module's name in camelCase: write %q instead", restored+suffix)
}

// Section returns a section in the form in which hooks receive it, and whether the ConfigMap mentions the section. If
// the ConfigMap has only the flag of a module, the section is empty. The result can share maps and lists with c, so the
// caller must not change it.
func (c Config) Section(key string) (section any, mentioned bool) {
	if section, ok := c.Sections[key]; ok {
		return section, true
	}
	if _, ok := c.Flags[Flag(key)]; ok {
		return map[string]any{}, true
	}
	return nil, false
}

// Difference is the difference between two Configs.
type Difference struct {
	Global bool     // the global section has changed
	Flags  []string // flags that were set, changed or removed, sorted
	// Modules has the sorted section keys of the modules whose section or maintenance mode has changed.
	Modules []string
}

// Diff returns the changes from an earlier Config c to a later one, the argument now. An absent section is treated as
// an empty one, because both lead to the same merged values.
func (c Config) Diff(now Config) (Difference, error) {
	var d Difference
	either := Values{}
	maps.Copy(either, c.Sections)
	maps.Copy(either, now.Sections)
	for _, key := range slices.Sorted(maps.Keys(either)) {
		changed, err := Changed(orEmpty(c.Sections[key]), orEmpty(now.Sections[key]))
		switch {
		case err != nil:
			return Difference{}, fmt.Errorf("section %q: %w", key, err)
		case changed && key == Global:
			d.Global = true
		case changed:
			d.Modules = append(d.Modules, key)
		}
	}
	for key := range c.Maintained {
		if !now.Maintained[key] {
			d.Modules = append(d.Modules, key)
		}
	}
	for key := range now.Maintained {
		if !c.Maintained[key] {
			d.Modules = append(d.Modules, key)
		}
	}
	slices.Sort(d.Modules)
	d.Modules = slices.Compact(d.Modules)
	for flag, value := range now.Flags {
		if before, held := c.Flags[flag]; !held || before != value {
			d.Flags = append(d.Flags, flag)
		}
	}
	for flag := range c.Flags {
		if _, holds := now.Flags[flag]; !holds {
			d.Flags = append(d.Flags, flag)
		}
	}
	slices.Sort(d.Flags)
	return d, nil
}

// orEmpty returns section, or an empty map if section is nil.
func orEmpty(section any) any {
	if section == nil {
		return map[string]any{}
	}
	return section
}

// FormatSection returns a section as YAML text for the ConfigMap. ParseConfig parses it to the same
// section.
func FormatSection(section any) (string, error) {
	// The section is encoded as canonical text and decoded again, because the YAML encoder panics for some types that
	// are not types of decoded JSON.
	text, err := Canonical(orEmpty(section))
	if err != nil {
		return "", err
	}
	plain, err := decodeValue(text)
	if err != nil {
		return "", err
	}
	// The encoder of sigs.k8s.io/yaml is not used: it parses JSON as YAML first, and fails for strings with control
	// characters.
	formatted, err := goyaml.Marshal(plain)
	if err != nil {
		return "", fmt.Errorf("values cannot be written as YAML: %w", err)
	}
	return string(formatted), nil
}
