package failure

import (
	"testing"

	"addon-operator/internal/api"
	"addon-operator/store"
)

func TestOnlyFetchErrorsThatMayPassAreCounted(t *testing.T) {
	t.Parallel()
	unreachable := []store.RepositoryResult{{Reason: string(api.FetchingIndexError)}}
	missing := []store.RepositoryResult{{Addons: []store.AddonResult{{}, {Reason: string(api.FetchingError)}}}}
	broken := []store.RepositoryResult{{Addons: []store.AddonResult{{Reason: string(api.LoadingError)}}}}
	misspelt := []store.RepositoryResult{{Reason: string(api.FetchingIndexError), Permanent: true}}
	for _, c := range []struct {
		results      []store.RepositoryResult
		before, want int
	}{
		{unreachable, 0, 1}, {missing, 1, 2}, {broken, 7, 0}, {misspelt, 7, 0}, {append(misspelt, unreachable...), 0, 1},
	} {
		if got := NextAttempts(c.results, c.before); got != c.want {
			t.Errorf("%+v after %d: %d attempts, want %d", c.results, c.before, got, c.want)
		}
	}
}
