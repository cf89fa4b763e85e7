package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// resultOf returns a result with n addons. The name of each entry consists of the given character, repeated length
// times, and a number.
func resultOf(n int, character string, length int) store.RepositoryResult {
	r := store.RepositoryResult{URL: "https://h/index.yaml"}
	for i := range n {
		r.Addons = append(r.Addons, store.AddonResult{Entry: fmt.Sprint(strings.Repeat(character, length), i), EntryVersion: "1.0.0"})
	}
	return r
}

func TestResultsOfARoundHaveABoundedSize(t *testing.T) {
	t.Parallel()
	ready := []store.RepositoryResult{resultOf(10, "a", 10)}
	for name, test := range map[string]struct {
		results []store.RepositoryResult
		want    string // a part of the message of the last result
	}{
		"one result":                      {ready, ""},
		"results of the greatest size":    {[]store.RepositoryResult{resultOf(15_000, "a", 200), resultOf(15_000, "a", 200)}, ""},
		"one too large result":            {append(ready, resultOf(20_000, "a", 200)), "addons in the repository need more than the limit of 4 MiB"},
		"one that is too large as JSON":   {append(ready, resultOf(5_000, "&", 200)), "addons in the repository need more than the limit of 4 MiB"},
		"results that exceed the sum":     {[]store.RepositoryResult{resultOf(15_000, "a", 200), resultOf(15_000, "a", 200), resultOf(10_000, "a", 200)}, "all addons of the configuration need more than the limit of 8 MiB"},
		"a repository that is not read":   {append(ready, store.RepositoryResult{URL: "u", Reason: "FetchingIndexError", Message: "not found"}), "not found"},
		"one whose known addons are many": {append(ready, store.RepositoryResult{URL: "u", Reason: "FetchingIndexError", Known: resultOf(20_000, "a", 200).Addons}), "need more than the limit of 4 MiB"},
	} {
		budget, size := registry.Budget{}, 0
		var last store.RepositoryResult
		for _, r := range test.results {
			var err error
			if last, err = budget.Fit(r); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(last)
			if err != nil {
				t.Fatal(err)
			}
			size += len(text)
		}
		failed := api.Reason(last.Reason) == api.FetchingIndexError && len(last.Addons)+len(last.Known) == 0
		if !strings.Contains(last.Message, test.want) || failed != (test.want != "") {
			t.Errorf("%s: the last result has %d addons, the reason %q and the message %q, want one with %q", name, len(last.Addons), last.Reason, last.Message, test.want)
		}
		if size > 9<<20 {
			t.Errorf("%s: the results have %d MiB", name, size>>20)
		}
	}
}

func TestEntriesBeyondTheBudgetAreNotReserved(t *testing.T) {
	t.Parallel()
	var budget registry.Budget
	for i, c := range []struct {
		n    int
		want bool
	}{{registry.MaxEntries - 1, true}, {2, false}, {1, true}, {0, true}, {1, false}} {
		if got := budget.Reserve(c.n); got != c.want {
			t.Errorf("call %d: %d entries are reserved: %t, want %t", i, c.n, got, c.want)
		}
	}
}
