// Package values combines the settings of modules from their sources, and applies the patches of hooks
// to them.
//
// The terms:
//
//   - A section is the settings of one module, or the global ones. Its key is "global", or the module's
//     name in camelCase (Camel).
//   - Values is a document of sections: key → section.
//   - A flag is the key of a section followed by "Enabled". It enables or disables the module.
//   - A File has the sections and flags of one values.yaml, a Config those of the ConfigMap.
//   - An Op is one operation of a JSON patch that a hook wrote. Saved is a stored Op with its hook. An
//     EnabledOverride is a flag that a hook set.
//   - Layers are files, ConfigMap and saved operations, lowest first, with the defaults of the sections'
//     schemas between them. They compose and validate the documents that hooks and Helm read.
//
// All functions are pure, except ReadFile. No result shares a map or a slice with an argument, unless
// the function says so. Errors name keys and paths. They never quote settings, which can be secrets, but
// may quote the value of a flag.
package values
