// Package module finds modules on disk and reads their static parts.
//
// The terms:
//
//   - A Module is a directory "NUMBER-NAME" below a directory of modules. It has a name, an order, and
//     optional parts: hooks, an enabled script, a chart.
//   - A broken module exists but cannot be loaded. It is listed with the reason, because a module that is
//     missing from the list could be treated as removed, and its objects deleted.
//   - A Set is all modules of all directories in the order they run, with the content of the values
//     files.
//   - A Decision is whether a module is enabled and who decided it.
//   - A digest is a checksum of the code of a module. If it is unchanged, nothing must be read again.
//
// The package reads files and runs nothing.
package module
