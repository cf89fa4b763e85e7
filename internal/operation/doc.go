// Package operation parses the operations that hooks request on objects of the cluster, and executes
// them.
//
// Its terms:
//
//   - An operation is one document of the file at $KUBERNETES_PATCH_PATH. It creates, changes or
//     deletes an object. The document HOOKS of shell-operator describes the format.
//   - An executor executes operations. Where necessary, it first checks whether an earlier attempt
//     has already executed the operation.
//   - An attempt describes the earlier attempts at the same operation.
//   - A mark is a record that is stored before some requests. From the mark, a later attempt finds
//     out whether the request had an effect, or another client has changed the object.
//   - A refusal is a final error: a retry of the same operation would fail again.
//
// Parsing needs no cluster. No error contains the content of an object or a patch, because the
// content may be secret.
package operation
