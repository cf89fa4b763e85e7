// Package objects carries out the object operations that hooks write to $KUBERNETES_PATCH_PATH.
//
// The operations of a run are carried out in order. Each operation must be done or rejected before the next one
// begins. A rejected operation does not stop the operations after it. A note beside the journal of the task records
// the progress that cannot be read from the cluster. So an operation that was done or rejected is not sent again
// after a crash.
package objects
