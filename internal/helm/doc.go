// Package helm installs, upgrades and uninstalls the charts of modules with the Helm v3 SDK. It is the
// only package that imports the SDK.
//
// A Release is a request: a name, a chart directory and values. A Manifest is the rendered release:
// its text, the checksum of the text, and its Objects. A State is the state of a release in the
// cluster. Of the methods of a Client, Find, Render and Missing only read, and Upgrade and
// Uninstall change the cluster. Upgrade calls the pure function planFor, which chooses the steps
// from the revisions of the release.
//
// The caller decides whether to upgrade. An upgrade is needed if State.Outdated is true for the
// manifest's checksum or if Missing returns an object.
//
// Releases are compatible with the helm command: one Secret (or ConfigMap) per revision, named
// sh.helm.release.v1.NAME.vN. As in addon-operator, the label moduleChecksum of a revision contains
// the checksum of its manifest, computed over the same text. So a release that addon-operator has
// deployed is not outdated.
package helm
