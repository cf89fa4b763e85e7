// Package story runs stories. A story is a script that a user of the operator could have written. It starts the real
// program with a real API server and checks the result.
//
// The terms:
//   - An environment belongs to one story. It has a directory with modules and global hooks, a namespace, and an operator
//     with its own store.
//   - A run is one run of a hook. The hooks of a story record their runs with two shell functions.
//   - A command acts on the environment or checks it. A command that checks waits up to half a minute for the result.
package story
