// Package series implements the metrics of hooks.
//
// Its terms:
//
//   - An Op is one operation that a hook has written, in the format of the METRICS_FROM_HOOKS document of
//     shell-operator.
//   - A series is one value, or one histogram, with a name and labels. The place of a series is a hash of its name
//     and labels.
//   - A Family has the type and the buckets that all series of one name have in common.
//   - A Shard contains the series of one hook, its Owner, in one group or without a group. If the hook has many
//     series in the group, it has several shards for the group. Each of them contains the series whose places are
//     in one range of numbers. So a run that changes one series writes only one small shard.
//   - A Snapshot contains all shards and families. It is served to Prometheus.
//
// The package stores nothing: shards and families are plain data.
package series
