package failure

import (
	"addon-operator/internal/api"
	"addon-operator/store"
)

// NextAttempts returns the number of consecutive rounds that have failed for a temporary reason, up to and including
// the round with these results. The argument before is the number of such rounds before this round. If this round has
// no temporary reason, NextAttempts returns 0.
func NextAttempts(results []store.RepositoryResult, before int) int {
	if mayPass(results) {
		return before + 1
	}
	return 0
}

// mayPass reports whether the fetch of a repository or an addon failed for a temporary reason.
func mayPass(results []store.RepositoryResult) bool {
	for _, repository := range results {
		if api.Reason(repository.Reason) == api.FetchingIndexError && !repository.Permanent {
			return true
		}
		for _, addon := range repository.Addons {
			if api.Reason(addon.Reason) == api.FetchingError && !addon.Permanent {
				return true
			}
		}
	}
	return false
}
