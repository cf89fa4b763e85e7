// Package values combines the settings of modules from their sources, and applies the patches of hooks
// to them.
//
// The terms:
//
//   - A section contains the settings of one module, or the global settings. Its key is the module's name in
//     camelCase (Camel), or "global".
//   - Values is a document that maps keys to sections.
//   - A flag is the key of a section followed by "Enabled". The value of the flag enables or disables the module.
//   - A File has the sections and flags of one values.yaml. A Config has the sections and flags of the ConfigMap.
//   - An Op is one operation of a JSON patch that a hook wrote. Saved is a stored Op with the name of its hook. An
//     EnabledOverride is a value that a hook has set for a flag.
//   - Layers are the values files, the ConfigMap and the saved operations, with the defaults of the sections' schemas
//     between them. A later layer overrides the earlier ones. Methods of Layers compose and validate the documents
//     that hooks and Helm read.
//
// ReadFile reads a file, and Dated modifies its argument. All other functions are pure. A document or section in a
// result shares no maps or lists with an argument, unless the comment of the function says so. Errors name keys and
// paths. They may quote the value of a flag, but never settings, which can be secrets.
package values
