package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// An appliedConfig is the ConfigMap content in force, decoded. It always equals the record that the
// transaction sees, and is decoded again only when that record changes.
type appliedConfig struct {
	mu     sync.RWMutex
	config values.Config // guarded by mu
	raw    []byte        // the record that config was decoded from; guarded by mu
}

// inForce returns the ConfigMap content in force. It is decoded once for as long
// as it stays the same, and must not be changed.
func (a *appliedConfig) inForce(tx *store.Tx) (values.Config, error) {
	raw := tx.Get(store.AppliedConfigKey())
	a.mu.RLock()
	c, same := a.config, bytes.Equal(raw, a.raw)
	a.mu.RUnlock()
	if same {
		return c, nil
	}
	c, _, err := applied(tx)
	if err != nil {
		return c, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.config, a.raw = c, bytes.Clone(raw)
	return c, nil
}

// applied returns the ConfigMap content in force, and the record it is of.
func applied(tx *store.Tx) (values.Config, store.AppliedConfig, error) {
	record, ok, err := store.Load[store.AppliedConfig](tx, store.AppliedConfigKey())
	if err != nil || !ok {
		return values.Config{}, record, err
	}
	var c values.Config
	if err := json.Unmarshal(record.Config, &c); err != nil {
		return values.Config{}, record, fmt.Errorf("the applied ConfigMap content in the store: %w", err)
	}
	return c, record, nil
}
