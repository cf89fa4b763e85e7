// Package operation parses the operations that hooks request on objects of the cluster, and executes
// them.
//
// Its terms:
//
//   - An operation is one document of the file at $KUBERNETES_PATCH_PATH: an object to be created,
//     changed or deleted. The format is that of the shell-operator HOOKS docs.
//   - An executor executes operations, one at a time. It first checks whether an operation is already
//     done.
//   - An attempt describes the earlier attempts at the same operation.
//   - A mark is recorded before a request whose effect cannot be distinguished afterwards from the
//     effects of other clients.
//   - A refusal is a final error: a retry of the same operation would fail again.
//
// Parsing needs no cluster. No error contains the content of an object or a patch, because it may be
// secret.
package operation
