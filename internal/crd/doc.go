// Package crd installs the CustomResourceDefinitions in the directories crds of modules.
//
// A definition is one document of one file. The installer creates or updates definitions in the cluster,
// and returns when the API server serves their kinds. It deletes neither a definition nor a version in
// which objects may still be stored.
package crd
