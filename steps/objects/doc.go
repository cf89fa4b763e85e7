// Package objects carries out the object operations that hooks write to $KUBERNETES_PATCH_PATH.
//
// The operations of a run are carried out in order. Each must be done or rejected before the next
// one begins. A note beside the journal of the task records the progress that cannot be seen in the
// cluster. So after a crash no operation is sent again that was done or rejected. A rejected
// operation does not stop the ones after it.
package objects
