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
