package steps

import "addon-operator/store"

// startup returns the record of starts and converges.
func startup(tx *store.Tx) (store.Startup, error) {
	l, _, err := store.Load[store.Startup](tx, store.StartupKey())
	return l, err
}
