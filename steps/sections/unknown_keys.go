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
	section, suffix := key, ""
	for _, s := range []string{values.Flag(""), values.Maintenance("")} {
		if cut, ok := strings.CutSuffix(key, s); ok && !slices.Contains(modules, cut) {
			section, suffix = cut, s
		}
	}
	text := fmt.Sprintf("there is no module %q", values.Kebab(section))
	if near := schema.Nearest(section, modules); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near+suffix)
	}
	return text
}

// UnknownKeys returns the keys of config that do not belong to any module. If several keys belong to the same unknown
// module, UnknownKeys returns one of them. The argument modules has the keys of all modules.
func UnknownKeys(modules []string, config values.Config) []string {
	keys := map[string]string{} // by the key of the section
	for key := range config.Maintained {
		keys[key] = values.Maintenance(key)
	}
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
