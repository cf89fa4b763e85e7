// Package module knows modules as they lie on disk.
//
// The nouns:
//
//   - A Module is a directory "NUMBER-NAME" below a directory of modules: its
//     name, its place in the order, and which parts it has — hooks, an enabled
//     script, a chart.
//   - A broken module is one that is there and cannot be loaded. It is listed with
//     the reason, because what is listed is not gone: nothing of it may be deleted.
//   - A Set is all modules of all directories in the order they run, with what the
//     values files say.
//   - A Decision is whether a module is enabled and who decided it.
//   - A digest is a checksum of the code of a module. If it is unchanged, nothing
//     must be read again.
//
// The package reads files and runs nothing.
package module
