package decide

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/store"
)

func TestAModuleThatCannotBeLoadedStaysAsItWasUnlessTheConfigMapDisablesIt(t *testing.T) {
	t.Parallel()
	on := []module.Decision{{Enabled: true, Source: module.SourceModuleFile, By: "web/values.yaml"}}
	off := values.Config{Flags: map[string]bool{"webEnabled": false}}
	bad := errors.New("bad")
	was := store.Module{Enabled: true}
	for name, c := range map[string]struct {
		broken error // of the files
		hooks  error
		config values.Config
		was    store.Module
		want   Module
	}{
		"a good module":                              {want: Module{Enabled: true, Why: "enabled by web/values.yaml"}},
		"disabled by the ConfigMap":                  {config: off, was: was, want: Module{Why: "disabled by ConfigMap key webEnabled"}},
		"broken files":                               {broken: bad, was: was, want: Module{Enabled: true, Broken: "bad", Why: stays}},
		"broken files of a module that was disabled": {broken: bad, want: Module{Broken: "bad", Why: stays}},
		"broken files, disabled by the ConfigMap":    {broken: bad, config: off, was: was, want: Module{Enabled: true, Broken: "bad", Why: stays}},
		"broken hooks":                               {hooks: bad, was: was, want: Module{Enabled: true, Broken: "module web: bad", Why: stays}},
		"broken hooks, disabled by the ConfigMap":    {hooks: bad, config: off, was: was, want: Module{Why: "disabled by ConfigMap key webEnabled"}},
	} {
		m := module.Module{Name: "web", Key: "web", Order: 3, Flags: on, Broken: c.broken}
		k := &Known{Modules: map[string]store.Module{"web": c.was}, hooks: map[string]error{}, layers: values.Layers{Config: c.config}}
		if c.hooks != nil {
			k.hooks["web"] = c.hooks
		}
		c.want.Name, c.want.Order = "web", 3
		if diff := cmp.Diff(c.want, k.byFlags(m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestADirectoryIsLostIfItIsEmptyAndHadAValuesFile(t *testing.T) {
	t.Parallel()
	web := []module.Module{{Name: "web"}}
	for name, c := range map[string]struct {
		set     module.Set
		modules map[string]store.Module
		files   []string // values files of the last discovery
		want    bool
	}{
		"no directory is empty":             {module.Set{Modules: web}, map[string]store.Module{"gone": {State: store.On}}, []string{"/a/values.yaml"}, false},
		"a directory that was always empty": {module.Set{Modules: web, Empty: []string{"/a"}}, map[string]store.Module{"web": {State: store.On}}, []string{"/b/values.yaml"}, false},
		"an installed module is missing":    {module.Set{Modules: web, Empty: []string{"/a"}}, map[string]store.Module{"gone": {State: store.On}}, []string{"/b/values.yaml"}, false},
		"the values file is missing":        {module.Set{Modules: web, Empty: []string{"/a"}}, nil, []string{"/a/values.yaml"}, true},
		"only the modules are missing":      {module.Set{Modules: web, Empty: []string{"/a"}, ValuesFiles: []string{"/a/values.yaml"}}, nil, []string{"/a/values.yaml"}, false},
	} {
		k := &Known{Set: c.set, Modules: c.modules, Startup: store.Startup{ValuesFiles: c.files}}
		if got := k.Lost(); got != c.want {
			t.Errorf("%s: lost %t", name, got)
		}
	}
}

func TestWhileADirectoryIsLostOnlyTheConfigMapDisablesAModule(t *testing.T) {
	t.Parallel()
	off := Module{Name: "web", Why: "disabled because nothing enables it"}
	on := Module{Name: "web", Enabled: true, Why: "enabled by web/values.yaml"}
	broken := Module{Name: "web", Enabled: true, Broken: "bad", Why: stays}
	kept := Module{Name: "web", Enabled: true, Kept: true, Why: "stays enabled, because a directory of modules has become empty"}
	hook := map[string]values.EnabledOverride{"webEnabled": {Hook: "hooks/x.sh"}}
	for name, c := range map[string]struct {
		decided   Module
		was       bool
		overrides map[string]values.EnabledOverride
		flags     map[string]bool // of the ConfigMap
		want      Module
	}{
		"still enabled":             {decided: on, was: true, want: on},
		"broken":                    {decided: broken, was: true, want: broken},
		"nothing enables it":        {decided: off, was: true, want: kept},
		"it was disabled before":    {decided: off, want: off},
		"a hook disables it":        {decided: off, was: true, overrides: hook, want: kept},
		"the ConfigMap disables it": {decided: off, was: true, flags: map[string]bool{"webEnabled": false}, want: off},
		"its script disables it":    {decided: off, was: true, flags: map[string]bool{"webEnabled": true}, want: kept},
		"another one is disabled":   {decided: off, was: true, flags: map[string]bool{"dbEnabled": false}, want: kept},
	} {
		k := &Known{Modules: map[string]store.Module{"web": {Enabled: c.was}}, enabledOverrides: c.overrides, layers: values.Layers{Config: values.Config{Flags: c.flags}}}
		if diff := cmp.Diff(c.want, k.keepEnabled(module.Module{Name: "web", Key: "web"}, c.decided)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
