// Package crd installs the CustomResourceDefinitions in the directories crds of modules.
//
// A definition is one document of a file. The installer creates or updates definitions in the
// cluster, and waits until the API server serves their kinds. It never deletes a definition. It
// deletes a version of a definition only after all objects have been stored in another version.
package crd
