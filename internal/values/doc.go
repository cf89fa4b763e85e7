// Package values holds the settings of modules: where they come from, how they
// are combined, and how hooks change them.
//
// The nouns:
//
//   - A section is the settings of one module, or the global ones. It is known
//     by its key: "global", or a module's name in camelCase (Camel).
//   - Values is a document of sections: key → section.
//   - A flag is the key of a section followed by "Enabled". It enables or
//     disables the module.
//   - A File has the sections and flags of one values.yaml, a Config those of
//     the ConfigMap.
//   - An Op is one operation of a JSON patch that a hook wrote. Saved is a stored
//     Op with its hook. An EnabledOverride is a flag that a hook set.
//   - Layers are files, ConfigMap and saved operations, lowest first, with the
//     defaults of the sections' schemas between them. They compose and validate
//     the documents that hooks and Helm read.
//
// All functions are pure, except ReadFile. No result shares a map or a slice
// with an argument, unless the function says so.
// Error texts name keys and paths and never quote settings, which can be
// secrets; what stands in a flag is quoted, as it is none.
package values
