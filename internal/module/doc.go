// Package module finds modules on disk and reads their static parts.
//
// The terms:
//
//   - A Module is a directory "NUMBER-NAME" in a directory of modules. It has a name, an order, and
//     optional parts: hooks, an enabled script, a chart.
//   - A broken module exists, but cannot be loaded. It is listed with the reason. If it were not listed, it
//     could be treated as removed, and its objects would be deleted.
//   - A Set has the modules of all directories, in the order in which they run, and the content of the
//     values files.
//   - A Decision tells whether a module is enabled, and which source decided that.
//   - A digest is a checksum of the code of a module. If it is unchanged, nothing must be read again.
//
// The package reads files and runs nothing.
package module
