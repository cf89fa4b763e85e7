// Package story runs stories. A story is a script that does what a user of the operator does. It starts the real
// program with a real API server and checks the results.
//
// The terms:
//   - An environment is what one story uses: a directory with modules and global hooks, a namespace, and an operator
//     with its own store.
//   - A run is one run of a hook. Hooks record their runs with the shell function record in library.sh.
//   - A command is one line of a story. It changes the environment or checks it. Most commands that check something
//     wait until the result is as expected, and fail after a time limit.
package story
