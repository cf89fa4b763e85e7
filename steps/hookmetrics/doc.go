// Package hookmetrics keeps in the store the metrics that hooks report.
//
// Each metric has a family: a record that counts the series of that metric in the metric shards of
// all hooks. The transaction that ends the run of a hook changes families and shards together. So a
// metric is served as long as it has a series, keeps its type for that time, and survives a
// restart.
package hookmetrics
