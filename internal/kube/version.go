package kube

import "k8s.io/apimachinery/pkg/util/resourceversion"

// After reports whether resource version a is later than b. It returns true if they cannot be
// compared, because a change delivered twice is harmless and a missed one is not.
func After(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// later returns the later of two versions; an empty one is earlier than all.
func later(a, b string) string {
	if a == "" || (b != "" && After(b, a)) {
		return b
	}
	return a
}

// isReached reports whether a server that is at version newest has reached version.
func isReached(version, newest string) bool {
	order, err := resourceversion.CompareResourceVersion(version, newest)
	return err == nil && order <= 0
}
