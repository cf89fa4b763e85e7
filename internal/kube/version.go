package kube

import "k8s.io/apimachinery/pkg/util/resourceversion"

// After reports whether the resource version a is later than b. If they cannot be compared, it returns true, because
// it does no harm to deliver a change twice, but it does harm to miss one.
func After(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// isAhead reports whether it is known that the resource version a is later than b. If they cannot be compared, isAhead
// returns false.
func isAhead(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// later returns the later one of two resource versions. The empty version is earlier than all others. If the versions
// cannot be compared, later returns b.
func later(a, b string) string {
	if a == "" || (b != "" && After(b, a)) {
		return b
	}
	return a
}

// isReached reports whether an API server has reached a resource version. The argument newest is the newest resource
// version that the API server has returned. If the two cannot be compared, isReached returns false.
func isReached(version, newest string) bool {
	order, err := resourceversion.CompareResourceVersion(version, newest)
	return err == nil && order <= 0
}
