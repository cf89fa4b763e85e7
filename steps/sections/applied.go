package sections

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// An Applied caches the decoded ConfigMap content in force. It decodes the content again when the record in the store
// differs from the cached one.
type Applied struct {
	mu     sync.RWMutex
	config values.Config // guarded by mu
	raw    []byte        // the record from which config was decoded; guarded by mu
}

// InForce returns the ConfigMap content in force, as tx reads it. The caller must not change the result.
func (a *Applied) InForce(tx *store.Tx) (values.Config, error) {
	raw := tx.Get(store.AppliedConfigKey())
	a.mu.RLock()
	c, same := a.config, bytes.Equal(raw, a.raw)
	a.mu.RUnlock()
	if same {
		return c, nil
	}
	c, _, err := LoadApplied(tx)
	if err != nil {
		return c, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.config, a.raw = c, bytes.Clone(raw)
	return c, nil
}

// LoadApplied returns the ConfigMap content in force, and its record.
func LoadApplied(tx *store.Tx) (values.Config, store.AppliedConfig, error) {
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

// LoadAppliedOrLost is [LoadApplied], but treats an unreadable record as absent.
func LoadAppliedOrLost(tx *store.Tx) (values.Config, store.AppliedConfig, error) {
	c, record, err := LoadApplied(tx)
	if errors.As(err, new(*store.RecordError)) {
		return values.Config{}, store.AppliedConfig{}, nil
	}
	return c, record, err
}

// MoveLostApplied checks the record of the content in force. If it cannot be read, MoveLostApplied moves it to the
// table of damaged records.
func MoveLostApplied(tx *store.Tx) error {
	_, _, err := LoadApplied(tx)
	if lost := (*store.RecordError)(nil); errors.As(err, &lost) {
		_, _, err = store.MoveDamaged(tx, store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, lost.Key, lost)
	}
	return err
}
