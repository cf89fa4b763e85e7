// Package series holds the metrics that hooks make.
//
// Its nouns: an Op is one operation a hook has written, by the METRICS_FROM_HOOKS
// document of shell-operator; a series is one value, or one histogram, under a
// name and labels, and its place a number made of these; a Family is what all
// series of one name have in common; a Shard is what one hook, its Owner, holds in
// one group, or without a group, or as much of that as can be rewritten at every
// run; a Snapshot is all shards and families, from which the page for Prometheus is
// made.
//
// Nothing here keeps anything: shards and families are plain data, read and
// written by those who have a store.
package series
