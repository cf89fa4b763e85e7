// Package crd installs the CustomResourceDefinitions in the directories crds/ of modules.
//
// A definition is one CustomResourceDefinition, which is one document of a YAML file. The installer creates or updates
// definitions in the cluster, and waits until the API server serves their kinds. It never deletes a definition. If
// objects may be stored in a version, the installer removes the version from the definition only after all objects of
// the kind have been stored in another version.
package crd
