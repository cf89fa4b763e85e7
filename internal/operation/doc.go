// Package operation reads what hooks want done with the cluster's objects, and does it.
//
// Its nouns:
//
//   - An operation is one document of the file at $KUBERNETES_PATCH_PATH: an object to be made, changed or deleted. The
//     format is that of the shell-operator HOOKS docs.
//   - An executor does operations, one at a time. It looks first whether one is done.
//   - An attempt is what is known of earlier tries at the same operation.
//   - A mark is written down before a request whose effect could not be told apart afterwards from that of others.
//   - A refusal is an error that no further try at the same operation will change.
//
// Reading needs no cluster. No error holds what is in an object or a patch: those can be secrets.
package operation
