package workflow

import (
	"errors"

	"addon-operator/store"
)

// After exclusiveAfter crashes of the operator during a task, the task runs exclusively. After
// quarantineAfter such crashes, the task is quarantined if it ran exclusively when the last of these
// crashes happened.
const (
	exclusiveAfter  = 2
	quarantineAfter = 3
)

// loadEnds returns how earlier processes ended. If the record cannot be read, all exits are treated
// as clean.
func loadEnds(tx *store.Tx) (store.Ends, error) {
	ends, _, err := store.Load[store.Ends](tx, store.EndsKey())
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
		return store.Ends{}, nil
	}
	return ends, err
}

// beginEpoch records that this epoch starts to process tasks.
func beginEpoch(tx *store.Tx, exitedCleanly func(epoch uint64) bool) error {
	ends, err := loadEnds(tx)
	if err != nil {
		return err
	}
	ends.Begin(tx.Epoch(), exitedCleanly)
	return store.Save(tx, store.EndsKey(), ends)
}

// crashesOf returns the number of epochs that crashed while they processed the task of claim c. It
// returns 0 if c is nil, has no epoch, is of this epoch, or if c.Excused is set.
func crashesOf(tx *store.Tx, c *store.Claim) (int, error) {
	if c == nil || c.Epoch == 0 || c.Epoch == tx.Epoch() || c.Excused {
		return 0, nil
	}
	ends, err := loadEnds(tx)
	if ends.Crashed(c.Epoch) {
		return c.Crashes + 1, err
	}
	return c.Crashes, err
}
