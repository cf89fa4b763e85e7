// Package objects carries out the operations on objects that hooks write to $KUBERNETES_PATCH_PATH.
//
// The operations of a run are carried out in order. Each operation must be done or rejected before the next
// one begins. The operations after a rejected one are still carried out. After a crash, an operation that was
// done or rejected must not be carried out again, unless a repetition has the same final result. If the
// cluster does not show that an operation was done or rejected, the package records this in a note. The note
// is stored together with the journal of the task.
package objects
