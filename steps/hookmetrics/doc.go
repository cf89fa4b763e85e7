// Package hookmetrics keeps in the store the metrics that hooks report.
//
// The record of a metric, its family, always counts the series of that metric in the metric shards of all hooks. Both
// change in the transaction that ends the run of a hook, so a metric is served as long as it has a series, keeps its
// type for that time, and survives a restart.
package hookmetrics
