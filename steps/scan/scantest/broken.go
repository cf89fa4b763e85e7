package scantest

import (
	"strings"
	"testing"

	"addon-operator/steps/scan"
	"addon-operator/store"
)

// GoodHook is the script of a hook that prints a valid configuration.
const GoodHook = "#!/bin/sh\necho '{\"configVersion\": \"v1\", \"beforeHelm\": 1}'\n"

// Broken has the modules of [NewBroken] that cannot be loaded. It maps the name of each module to a part of the
// reason.
var Broken = map[string]string{
	"yaml": "values.yaml", "hook": "hooks/bad.sh --config", "asleep": "cannot be executed", "off": "hooks/bad.sh --config",
}

// NewBroken returns the scanned state of a directory with the module "web" and the modules in [Broken], which cannot
// be loaded. All modules are enabled, except the module "off".
func NewBroken(t testing.TB) (state *scan.State, mounted string) {
	t.Helper()
	o, mounted, _ := Options(t)
	o.GlobalHooksDir = t.TempDir()
	state = scan.New(o, nil)
	Write(t, mounted, "values.yaml", "webEnabled: true\nyamlEnabled: true\nhookEnabled: true\nasleepEnabled: true\n")
	Program(t, mounted, "010-web/hooks/hook.sh", GoodHook)
	Write(t, mounted, "020-yaml/values.yaml", "yaml: [")
	Program(t, mounted, "030-hook/hooks/good.sh", GoodHook)
	Program(t, mounted, "030-hook/hooks/bad.sh", "#!/bin/sh\necho 'Hello, World!'\n")
	Write(t, mounted, "040-asleep/enabled", "#!/bin/sh\n")
	Program(t, mounted, "050-off/hooks/bad.sh", "#!/bin/sh\nexit 3\n")
	Scan(t, state)
	return state, mounted
}

// RecordedBroken returns one element for each module that is recorded as broken, by the name of the module. The value
// is the text in [Broken] that the recorded reason contains, or the whole reason if it contains no such text.
func RecordedBroken(t testing.TB, db *store.DB) map[string]string {
	t.Helper()
	broken := map[string]string{}
	if err := db.View(func(tx *store.Tx) error {
		known, err := store.LoadModules(tx)
		for name, m := range known {
			for _, word := range Broken {
				if strings.Contains(m.Broken, word) {
					broken[name] = word
				}
			}
			if broken[name] == "" && m.Broken != "" {
				broken[name] = m.Broken
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return broken
}
