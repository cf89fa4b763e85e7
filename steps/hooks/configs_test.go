package hooks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
)

func TestEmptyHooksDirectoryForgetsNoHooks(t *testing.T) {
	s, _ := scantest.New(t)
	configs := hooks.New(s.DB, s.Log, nil, s.Modules)
	none := hooks.Found{Hooks: map[string]store.Hook{}}
	if err := configs.CheckNotEmpty(none); err != nil {
		t.Errorf("where there never was a hook: %v", err)
	}
	if err := s.DB.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.HookKey("", "hooks/x.sh"), store.Hook{Digest: "d"})
	}); err != nil {
		t.Fatal(err)
	}
	if err := configs.CheckNotEmpty(none); err == nil || !strings.Contains(err.Error(), "is it mounted?") {
		t.Errorf("got %v", err)
	}
}

func TestHookOfAMovedModuleIsRunWhereItLiesNow(t *testing.T) {
	s, _ := scantest.New(t)
	hookAt := func(path string) hooks.Found {
		file, err := json.Marshal(hook.File{Scope: hook.Module, Name: "hooks/h.sh", Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return hooks.Found{Digest: "same", Hooks: map[string]store.Hook{"hooks/h.sh": {Digest: "same", File: file, Config: json.RawMessage(`{}`)}}}
	}
	for _, c := range []struct {
		path    string
		changed bool
	}{{"/modules/020-web/hooks/h.sh", true}, {"/modules/030-web/hooks/h.sh", false}} {
		if err := s.DB.Update(func(tx *store.Tx) error {
			changed, err := hookAt(c.path).Save(tx, "web")
			if changed != c.changed {
				t.Errorf("at %s changed is %t", c.path, changed)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.DB.View(func(tx *store.Tx) error {
			h, _, err := bindings.LoadHook(tx, "web", "hooks/h.sh")
			if h.File.Path != c.path {
				t.Errorf("the hook is run at %s, lies at %s", h.File.Path, c.path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
