// Package helm installs, upgrades and uninstalls the charts of modules with the Helm v3 SDK. It is the
// only package that imports the SDK.
//
// A Release is a request: a name, a chart directory and values. A Manifest is the rendered release: its
// text, the checksum of the text, and its Objects. A State is the state of a release in the cluster. The
// methods of a Client are in three separate groups: Find, Render and Missing only read; a pure function
// plans the steps for a release from its revisions; Upgrade and Uninstall change the cluster.
//
// The caller decides whether to upgrade. An upgrade is needed if State.Outdated is true for the
// manifest's checksum or if Missing returns an object.
//
// Releases are compatible with the helm command: one Secret (or ConfigMap) per revision, named
// sh.helm.release.v1.NAME.vN. The manifest's checksum is in the revision's label moduleChecksum, as in
// addon-operator, and is computed over the same text. So releases of addon-operator are up to date.
package helm
