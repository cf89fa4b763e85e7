package hooks

import (
	"fmt"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/store"
)

// configTimeout is the timeout for a hook of a module to print its config.
const configTimeout = 30 * time.Second

// A hookCheck is the call of one hook of a module for its config.
type hookCheck struct {
	module int // index in the set
	file   hook.File
	digest string
	err    error
}

// Checked is the result of the check of one module.
type Checked struct {
	Name  string `json:"name"`
	Order int    `json:"order"`
	// Broken is why the module cannot be loaded; empty if it can.
	Broken string `json:"broken,omitempty"`
}

// BrokenBy returns why m cannot be loaded: because of its files, or of its hooks.
func BrokenBy(m module.Module, hooks map[string]error) error {
	if m.Broken != nil {
		return m.Broken
	}
	if err := hooks[m.Name]; err != nil {
		return fmt.Errorf("module %s: %w", m.Name, err)
	}
	return nil
}

// SaveBroken writes the errors of the modules to their records. The discovery of modules writes
// all other fields of the records.
func SaveBroken(tx *store.Tx, checked []Checked) error {
	for _, c := range checked {
		key := store.ModuleKey(c.Name)
		record, known, err := store.Load[store.Module](tx, key)
		if err != nil {
			return err
		}
		if record.Broken == c.Broken {
			continue
		}
		if record.SetBroken(c.Broken, tx.Now()); !known {
			record.State, record.Order = store.Off, c.Order
		}
		if err := store.Save(tx, key, record); err != nil {
			return err
		}
	}
	return nil
}

// AnyBroken reports whether any of the modules is recorded as one that cannot be loaded.
func AnyBroken(tx *store.Tx, names []string) (bool, error) {
	for _, name := range names {
		m, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
		if err != nil || m.Broken != "" {
			return err == nil, err
		}
	}
	return false, nil
}
