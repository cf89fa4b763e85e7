package kube

import "k8s.io/apimachinery/pkg/util/resourceversion"

// After reports whether resource version a is later than b. If the versions cannot be compared, it
// returns true, because delivering a change twice is harmless and missing a change is not.
func After(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// later returns the later of two versions. The empty version is earlier than all others.
func later(a, b string) string {
	if a == "" || (b != "" && After(b, a)) {
		return b
	}
	return a
}

// isReached reports whether a server whose newest version is newest has reached version. It returns
// false if the versions cannot be compared.
func isReached(version, newest string) bool {
	order, err := resourceversion.CompareResourceVersion(version, newest)
	return err == nil && order <= 0
}
