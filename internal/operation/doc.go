// Package operation parses the operations that hooks request on objects of the cluster, and executes
// them.
//
// Its terms:
//
//   - An operation is one document of the file at $KUBERNETES_PATCH_PATH. It creates, changes or
//     deletes an object. The document HOOKS of shell-operator describes the format.
//   - An executor executes operations. Before an executor repeats an operation, it checks where
//     necessary whether an earlier attempt has already executed it.
//   - An attempt describes the earlier attempts at the same operation.
//   - A mark describes a request, and is stored before some requests. With the mark, a later
//     attempt can find out whether the request was carried out, or whether another client has
//     changed the object.
//   - A refusal is a final error: a retry of the same operation would fail again.
//
// Parsing needs no cluster. Errors quote names and paths, but not the other content of an object or
// a patch, because the content may be secret.
package operation
