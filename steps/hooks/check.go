package hooks

import (
	"addon-operator/internal/hook"
	"addon-operator/store"
)

// A hookCheck is one hook of a module that must be run with --config, and the error of this run.
type hookCheck struct {
	module int // index of the module in the set
	file   hook.File
	digest string
	err    error
}

// Checked is the result of the check of one module.
type Checked struct {
	Name  string `json:"name"`
	Order int    `json:"order"`
	// Broken is the reason why the module cannot be loaded. It is empty if the module can be loaded.
	Broken string `json:"broken,omitempty"`
}

// SaveBroken writes the field Broken of each element of checked to the record of the module. If a broken module has no
// record, it gets one with the state Off. The discovery writes the other fields.
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
