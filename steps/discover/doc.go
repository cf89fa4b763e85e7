// Package discover discovers modules: it scans their directories, decides which of them are enabled, and compares
// them with the releases in the cluster. The parts of a discovery are in the packages decide, safety, crds, stale and
// survey below this one.
package discover
