// Package hookmetrics stores the metrics that hooks report.
//
// Each metric has a family: a record that counts the series of the metric in the metric shards of all hooks. The
// transaction that ends the run of a hook changes families and shards together. So a metric survives a restart of the
// operator. A metric is served as long as it has a series, and keeps its type during this time.
package hookmetrics
