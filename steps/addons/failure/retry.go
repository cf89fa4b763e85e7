package failure

import (
	"addon-operator/internal/api"
	"addon-operator/store"
)

// NextAttempts returns how many rounds in a row have failed for a reason that may pass, this one
// included: 0 if the reason of this one does not pass by itself.
func NextAttempts(results []store.RepositoryResult, before int) int {
	if mayPass(results) {
		return before + 1
	}
	return 0
}

// mayPass reports whether something could not be fetched that another attempt may fetch.
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
