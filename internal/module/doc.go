// Package module finds modules on disk and reads their static parts.
//
// The terms:
//
//   - A Module is a directory "NUMBER-NAME" or "NAME" in a directory of modules. It has a name, an order,
//     and optional parts: hooks, an enabled script, a chart.
//   - A broken module exists, but cannot be loaded. It is listed with the reason. If it were not listed, it would be
//     treated as removed, and its objects would be deleted.
//   - A Set has the modules of all directories, in the order in which they run, and the content of the
//     values files.
//   - A Decision says whether a module is enabled, and which source decided that.
//   - A digest is a checksum of the code of a module. If the digest is unchanged, the operator need not ask the hooks
//     of the module for their configurations again.
//
// The package reads files and runs nothing. It writes only the modules that are made from addons; see
// [WriteAddonModules].
package module
