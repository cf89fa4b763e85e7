// Package values holds the settings of modules: where they come from, how they
// are combined, and how hooks change them.
//
// The nouns:
//
//   - A section is the settings of one module, or the global ones. It is known
//     by its key: "global", or a module's name in camelCase (Camel).
//   - Values is a document of sections: key → section.
//   - A flag is the key of a section followed by "Enabled"; it says whether the
//     module runs.
//   - A File is what one values.yaml says, Config what the ConfigMap says:
//     sections and flags.
//   - An Op is one operation of a JSON patch a hook wrote. Saved is an Op kept
//     for later, with the hook that wrote it; an Opinion is a flag a hook set.
//   - Layers are files, ConfigMap and saved operations together, lowest first,
//     with the defaults of the sections' schemas between them; they compose the
//     documents that hooks and Helm read, and check them.
//
// Everything here is a pure function of its arguments, but for ReadFile. No
// result shares a map or a list with an argument, unless the function says so.
// Error texts name keys and paths and never quote settings, which can be
// secrets; what stands in a flag is quoted, as it is none.
package values
