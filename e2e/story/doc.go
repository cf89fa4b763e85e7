// Package story runs stories: scripts that a user of the operator could have
// written, which start the real program against a real API server and look at
// what it did.
//
// Its nouns are the environment, which a story has to itself: a directory with
// modules and global hooks, a namespace, an operator with a store of its own;
// the runs, which the hooks of a story record by two shell functions; and the
// commands by which a script acts on its environment and looks at it. What takes time
// is waited for by every command that looks, up to half a minute.
package story
