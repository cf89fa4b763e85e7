// Package story runs stories. A story is a script with actions of a user of the operator. It starts the real program
// with a real API server and checks the results.
//
// The terms:
//   - An environment belongs to one story. It has a directory with modules and global hooks, a namespace, and an operator
//     with its own store.
//   - A run is one run of a hook. The hooks of a story record their runs with two shell functions.
//   - A command acts on the environment or checks it. A command that checks waits for the result, up to a limit.
package story
