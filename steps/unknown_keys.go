package steps

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/schema"
	"addon-operator/internal/values"
)

// noModule says that there is no module for a key, and which one may be meant.
func noModule(key string, modules []string) string {
	section, flag := strings.CutSuffix(key, values.Flag(""))
	text := fmt.Sprintf("there is no module %q", values.Kebab(section))
	near := schema.Nearest(section, modules)
	if near != "" && flag {
		near = values.Flag(near)
	}
	if near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text
}

// unknownKeys returns the keys of config that belong to none of modules, which are named by their keys.
func unknownKeys(modules []string, config values.Config) []string {
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
