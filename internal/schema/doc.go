// Package schema holds values to what their authors wrote down about them, in the
// OpenAPI files of modules and of global hooks.
//
// The nouns:
//
//   - A Schema says which values one document may hold, and what stands for those
//     that are missing: its defaults.
//   - A Set is what one directory openapi holds: the schema of what the ConfigMap
//     may say (config-values.yaml), that of merged values (values.yaml), and the one
//     made from it for the moment before Helm.
//   - A rule is a condition in the Common Expression Language, written under
//     x-deckhouse-validations.
//   - A Violation is one value, or one missing value, that a Schema does not take.
//
// The files are those of the addon-operator VALUES docs. Unlike in plain OpenAPI, a
// key that a schema does not name is refused unless additionalProperties says
// otherwise.
//
// Error texts about a schema may quote it. Texts about values name keys, types and
// limits, and never quote a value, which can be a secret.
package schema
