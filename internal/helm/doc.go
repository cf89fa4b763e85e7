// Package helm installs, upgrades and uninstalls the charts of modules with the Helm v3 SDK. No other package of the
// operator uses the SDK to access the cluster: internal/catalog only loads and lints charts with it.
//
// A Release describes a release that the caller wants: a name, a chart directory and values. A Manifest is the
// rendered release: its text, the checksum of the text, and its Objects. A State is the state of a release in the
// cluster. The methods Find, Render and Missing of a Client only read from the cluster. Upgrade and Uninstall change
// it. Upgrade calls the pure function planFor, which chooses the steps of the upgrade from the revisions of the
// release.
//
// The caller decides whether to upgrade. An upgrade is needed if State.Outdated returns true for the checksum of the
// manifest, or if Missing returns an object.
//
// Releases are compatible with the helm command: each revision is a Secret (or ConfigMap) named
// sh.helm.release.v1.NAME.vN. They are also compatible with flant/addon-operator: the label moduleChecksum of a
// revision has the checksum of its manifest, computed over the same text. So a release that flant/addon-operator has
// deployed is outdated only if its manifest changes.
package helm
