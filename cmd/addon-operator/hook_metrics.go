package main

import (
	"addon-operator/internal/series"
	"addon-operator/steps/hookmetrics"
	"addon-operator/store"
)

// hookMetrics reads what hooks have counted.
func (o *operator) hookMetrics() (snapshot series.Snapshot, err error) {
	err = o.db.View(func(tx *store.Tx) (err error) {
		snapshot, err = hookmetrics.Snapshot(tx)
		return err
	})
	return snapshot, err
}

// metricsDropped counts metric operations of a hook that did not count.
func (o *operator) metricsDropped(d hookmetrics.Dropped) {
	o.metrics.HookMetricsDropped(d.Module, d.Hook, d.Reason, d.Operations)
}
