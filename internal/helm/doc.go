// Package helm keeps modules' charts installed, through the Helm v3 SDK. It is the only package that imports it.
//
// Its nouns: a Release is what is asked for, a name, a chart directory and values. A Manifest is what a release
// renders to: its text, the checksum of that text, and the Objects that are in it. A State is what the cluster
// holds of a release. A Client does the rest, in three places kept apart: Find, Render and Missing find out and
// change nothing; the steps of a release's plan are chosen from the revisions found, by a pure function; Upgrade
// and Uninstall act.
//
// Whether to upgrade is the caller's decision. It should, when State.Outdated is true for the manifest's checksum
// or when Missing names an object.
//
// Releases are those of the helm command: one Secret (or ConfigMap) a revision, named sh.helm.release.v1.NAME.vN.
// The manifest's checksum is kept in the revision's label moduleChecksum, as addon-operator does, and is computed
// over the same text, so that releases made by it are found up to date.
package helm
