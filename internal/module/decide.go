package module

import (
	"fmt"

	"addon-operator/internal/values"
)

// Source is the source that decided whether a module is enabled.
type Source string

const (
	// SourceNobody means that no source sets the enabled flag of the module. The module is disabled.
	SourceNobody Source = ""
	// SourceAddon is the addon of the module. It disables the module until another source enables
	// it.
	SourceAddon Source = "addon"
	// SourceModulesFile is the values.yaml of a directory of modules.
	SourceModulesFile Source = "modules values file"
	// SourceModuleFile is the values.yaml of the module.
	SourceModuleFile Source = "module values file"
	// SourceHook is an enabled override of a global hook.
	SourceHook Source = "hook"
	// SourceConfig is the ConfigMap.
	SourceConfig Source = "ConfigMap"
)

// A Decision says whether a module is enabled, and which source decided that.
type Decision struct {
	Enabled bool   `json:"enabled"`
	Source  Source `json:"source,omitempty"`
	// By is the path of the file, the hook, the key of the ConfigMap or the addon that decided.
	By string `json:"by,omitempty"`
}

// String returns the decision as a short clause: "disabled by hook hooks/x.sh".
func (d Decision) String() string {
	state := "disabled"
	if d.Enabled {
		state = "enabled"
	}
	switch d.Source {
	case SourceNobody, SourceAddon:
		return state + " because nothing enables it"
	case SourceConfig:
		return fmt.Sprintf("%s by ConfigMap key %s", state, d.By)
	case SourceHook:
		return fmt.Sprintf("%s by hook %s", state, d.By)
	default:
		return fmt.Sprintf("%s by %s", state, d.By)
	}
}

// Decide decides by the enabled flags in all sources whether module m is enabled. The last source that sets the flag
// decides. The order of sources is: the values files of the directories of modules, the values file of the module (or
// the addon that the module is made from), the enabled overrides of hooks, the ConfigMap. If no source sets the flag,
// the module is disabled. The enabled script of the module, which runs later, can only disable an enabled module.
func Decide(m Module, overrides map[string]values.EnabledOverride, config values.Config) Decision {
	var decision Decision
	for _, found := range m.Flags {
		decision = found
	}
	flag := values.Flag(m.Key)
	if override, held := overrides[flag]; held {
		decision = Decision{Enabled: override.Value, Source: SourceHook, By: override.Hook}
	}
	if enabled, found := config.Flags[flag]; found {
		decision = Decision{Enabled: enabled, Source: SourceConfig, By: flag}
	}
	return decision
}
