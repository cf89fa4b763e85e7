// Package objects carries out the object operations that hooks write to $KUBERNETES_PATCH_PATH.
//
// The operations of a run are carried out one after another, each until it is settled: done or rejected. A note beside
// the journal of the task records the progress that cannot be detected in the cluster, so after a crash no settled
// operation is sent again. A rejected operation does not stop the ones after it.
package objects
