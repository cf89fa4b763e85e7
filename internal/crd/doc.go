// Package crd installs the CustomResourceDefinitions that modules bring in their
// directories crds.
//
// Its nouns: a definition is one document of one file; the installer makes the
// cluster have definitions, and returns when the API server serves their kinds.
// Nothing is ever deleted: not a definition, and not a version in which objects
// may still be stored.
package crd
