// Package schema validates values against the OpenAPI files of modules and of global hooks.
//
// The terms:
//
//   - A Schema describes the permitted values of a section, and defaults for missing values.
//   - A Set contains the schemas of one directory openapi: the schema of the section in the
//     ConfigMap (config-values.yaml), the schema of the merged values (values.yaml), and the schema
//     of the values for Helm, which is derived from values.yaml.
//   - A rule is a condition in the Common Expression Language under x-deckhouse-validations.
//   - A Violation is one value, or one missing value, that a Schema does not accept.
//
// The document VALUES of flant/addon-operator describes the files. Unlike in plain OpenAPI, a key
// that the schema does not name is rejected, unless additionalProperties permits it.
//
// An error about a schema may quote the schema. An error about values names keys, types and limits.
// It never quotes a value, because the value can be a secret.
package schema
