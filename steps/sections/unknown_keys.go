package sections

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/schema"
	"addon-operator/internal/values"
)

// NoModule returns a text that says that no module has this key. The text suggests the most similar key of a module,
// if one is similar.
func NoModule(key string, modules []string) string {
	section, flag := strings.CutSuffix(key, values.Flag(""))
	text := fmt.Sprintf("there is no module %q", values.Kebab(section))
	near := schema.Nearest(section, modules)
	if near != "" && flag {
		near = values.Flag(near)
	}
	if near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// UnknownKeys returns the keys of config that do not belong to any module. The argument modules has the keys of all
// modules.
func UnknownKeys(modules []string, config values.Config) []string {
	keys := map[string]string{}
	for key := range config.Sections {
		keys[key] = key
	}
	for flag := range config.Flags {
		keys[strings.TrimSuffix(flag, values.Flag(""))] = flag
	}
	for _, key := range modules {
		delete(keys, key)
	}
	return slices.Sorted(maps.Values(keys))
}
