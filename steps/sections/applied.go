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

// An Applied caches the decoded content of the ConfigMap that is in force. It decodes the content again if the record
// in the store has changed.
type Applied struct {
	mu     sync.RWMutex
	config values.Config // guarded by mu
	raw    []byte        // the record from which config was decoded; guarded by mu
}

// InForce returns the content of the ConfigMap that is in force in the transaction tx. The caller must not change the
// result.
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

// LoadApplied returns the content of the ConfigMap that is in force, and its record. If the store has no record, it
// returns zero values.
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

// LoadAppliedOrLost is like [LoadApplied], but treats a record that cannot be read as absent.
func LoadAppliedOrLost(tx *store.Tx) (values.Config, store.AppliedConfig, error) {
	c, record, err := LoadApplied(tx)
	if errors.As(err, new(*store.RecordError)) {
		return values.Config{}, store.AppliedConfig{}, nil
	}
	return c, record, err
}

// MoveLostApplied checks the record of the content of the ConfigMap that is in force. If the record cannot be read,
// MoveLostApplied moves it to the table of damaged records.
func MoveLostApplied(tx *store.Tx) error {
	_, _, err := LoadApplied(tx)
	if lost := (*store.RecordError)(nil); errors.As(err, &lost) {
		_, _, err = store.MoveDamaged(tx, store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, lost.Key, lost)
	}
	return err
}
