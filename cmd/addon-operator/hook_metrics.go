package main

import (
	"addon-operator/internal/series"
	"addon-operator/steps/hookmetrics"
	"addon-operator/store"
)

// committed measures an attempt of the store to commit, even if it has failed, and wakes open web pages and commands
// that follow changes. Commits at the start, before the metrics exist, are not measured.
func (o *operator) committed(c store.Commit) {
	o.changes.Committed(c)
	if o.metrics != nil {
		o.metrics.Committed(c.Took, c.Writes)
	}
}

// hookMetrics returns the metrics that hooks have reported, from the store.
func (o *operator) hookMetrics() (snapshot series.Snapshot, err error) {
	err = o.db.View(func(tx *store.Tx) (err error) {
		snapshot, err = hookmetrics.Snapshot(tx)
		return err
	})
	return snapshot, err
}
