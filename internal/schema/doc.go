// Package schema validates values against the OpenAPI files of modules and of global hooks.
//
// The terms:
//
//   - A Schema says which values a document may contain, and has defaults for missing ones.
//   - A Set contains the schemas of one directory openapi: for the section in the ConfigMap
//     (config-values.yaml), for merged values (values.yaml), and the one for Helm, which is derived from
//     values.yaml.
//   - A rule is a condition in the Common Expression Language under x-deckhouse-validations.
//   - A Violation is one value, or one missing value, that a Schema does not accept.
//
// The files are those of the addon-operator VALUES docs. Unlike in plain OpenAPI, an unknown key is
// rejected unless additionalProperties allows it.
//
// Errors about a schema may quote it. Errors about values name keys, types and limits, and never quote a
// value, which can be a secret.
package schema
