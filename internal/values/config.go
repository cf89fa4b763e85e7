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

// Config is what the operator's ConfigMap says. The zero value is that of a
// ConfigMap which is absent or empty. It is stored and read back as JSON without
// loss.
type Config struct {
	// Sections holds the sections the ConfigMap has; a module's is a map or a list.
	Sections Values `json:"sections,omitempty"`
	// Flags holds what the ConfigMap says of modules being enabled, by flag.
	Flags map[string]bool `json:"flags,omitempty"`
	// Maintained holds the keys of the sections of modules in maintenance mode: what
	// they have installed is left as it is.
	Maintained map[string]bool `json:"maintained,omitempty"`
}

// ParseConfig reads the data of the operator's ConfigMap, in the format of the
// addon-operator VALUES docs: "global" and modules' keys hold YAML, flags hold
// "true" or "false". The error names every key that is wrong and what to write
// instead; the Config is the zero value then, as nothing of an invalid ConfigMap
// may be used. That a module exists is not checked.
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

// parseKey takes one key of the ConfigMap in.
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
		return fmt.Errorf(`holds %.40q: write "true" or "false", in quotes, small letters, nothing around`, text)
	}
	c.Flags[key] = text == "true"
	return nil
}

func parseSection(c *Config, key, text string) error {
	section, line, err := decodeYAML([]byte(text))
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

// NoReconciliation is the one state of maintenance mode there is.
const NoReconciliation = "NoResourceReconciliation"

func parseMaintenance(c *Config, key, text string) error {
	state, _, _ := decodeYAML([]byte(text)) // isMaintenance has decoded it
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

// isMaintenance tells a state of maintenance mode from the section of a module
// whose name happens to end in -maintenance, which is a map or a list.
func isMaintenance(text string) bool {
	v, _, err := decodeYAML([]byte(text))
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return err == nil
	}
}

// checkKey returns an error when no module's name can be restored from the key
// of a section; suffix is what followed it in the ConfigMap, for the hint.
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

// Section returns what hooks are shown of a section in their config values, and
// whether the ConfigMap mentions it: a module that is only switched on or off
// there has an empty section, one that is not mentioned has none. The result
// belongs to c.
func (c Config) Section(key string) (section any, mentioned bool) {
	if section, ok := c.Sections[key]; ok {
		return section, true
	}
	if _, ok := c.Flags[Flag(key)]; ok {
		return map[string]any{}, true
	}
	return nil, false
}

// Difference is what changed from one Config to the next.
type Difference struct {
	Global bool     // the global section
	Flags  []string // flags set, changed or removed, sorted
	// Modules holds the keys of the modules' sections that changed, or that are in
	// maintenance mode only now or no more, sorted.
	Modules []string
}

// Diff tells what is different in now. A section that is absent is the same as an
// empty one: merged values cannot tell them apart.
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

// orEmpty returns the section, an empty one for none.
func orEmpty(section any) any {
	if section == nil {
		return map[string]any{}
	}
	return section
}

// FormatSection returns a section as YAML text for the ConfigMap. ParseConfig
// reads the same section back.
func FormatSection(section any) (string, error) {
	// Through the canonical text, so that the encoder meets nothing it panics at.
	text, err := Canonical(orEmpty(section))
	if err != nil {
		return "", err
	}
	plain, err := decodeValue(text)
	if err != nil {
		return "", err
	}
	// The encoder of sigs.k8s.io/yaml parses JSON as YAML first, and fails at
	// strings with control characters.
	formatted, err := goyaml.Marshal(plain)
	if err != nil {
		return "", fmt.Errorf("values cannot be written as YAML: %w", err)
	}
	return string(formatted), nil
}
