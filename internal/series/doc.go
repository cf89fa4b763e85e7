// Package series implements the metrics of hooks.
//
// Its terms:
//
//   - An Op is one operation that a hook has written, in the format of the METRICS_FROM_HOOKS document of
//     shell-operator.
//   - A series is one value, or one histogram, with a name and labels. Its place is a hash of the name and
//     the labels.
//   - A Family has the type and the buckets that all series of one name have in common.
//   - A Shard contains the series of one hook, its Owner, in one group or without a group. If there are
//     many series, there are several shards, each with a range of places, so that a run rewrites little.
//   - A Snapshot is all shards and families. The page for Prometheus is made from it.
//
// The package stores nothing: shards and families are plain data.
package series
