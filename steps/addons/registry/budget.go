package registry

import (
	"encoding/json"
	"fmt"
	"slices"

	"addon-operator/internal/api"
	"addon-operator/internal/tree"
	"addon-operator/store"
)

// The limits of the results of one round. Each step of a round reads all results into memory.
const (
	// MaxRepositories is the maximum number of repositories of one configuration that are fetched.
	MaxRepositories = 2_000
	// MaxEntries is the maximum number of entries, in all indexes of one configuration, whose addons are fetched.
	MaxEntries = 10_000
	// longestMessage is the maximum length of a message in bytes.
	longestMessage = 2 << 10
	// largestResult is the maximum size in bytes of one result.
	largestResult = 4 << 20
	// largestResults is the maximum size in bytes of all results with addons. [Round.Save] writes them in one
	// transaction.
	largestResults = 8 << 20
)

// divide says how to correct a configuration that exceeds a limit.
const divide = "divide the repositories among several configurations, or their indexes into smaller ones"

// A Budget limits the results of one round. Its zero value is the budget of a round without results.
type Budget struct{ entries, size int }

// Reserve takes n entries of an index from the budget, and returns true. If fewer entries are left, Reserve takes
// nothing and returns false, and the result of the repository must be [TooManyEntries].
func (b *Budget) Reserve(n int) bool {
	if b.entries+n > MaxEntries {
		return false
	}
	b.entries += n
	return true
}

// Fit takes the size of a result from the budget. It returns the result with its long messages cut. If the result
// exceeds a limit, Fit instead returns a result without addons, whose message names the limit.
func (b *Budget) Fit(r store.RepositoryResult) (store.RepositoryResult, error) {
	r = cutMessages(r)
	size, err := sizeOf(r)
	switch {
	case err != nil:
		return r, err
	case size > largestResult:
		return exceeding(r.URL, fmt.Errorf("the names, versions and messages of the addons in the repository need more than the limit of %d MiB; %s", largestResult>>20, divide)), nil
	case len(r.Addons)+len(r.Known) > 0 && b.size+size > largestResults:
		return exceeding(r.URL, fmt.Errorf("the names, versions and messages of all addons of the configuration need more than the limit of %d MiB; %s", largestResults>>20, divide)), nil
	}
	b.size += size
	return r, nil
}

// TooManyEntries returns the result of a repository whose entries exceed the budget of the round.
func TooManyEntries(url string) store.RepositoryResult {
	return exceeding(url, fmt.Errorf("too many addons: the indexes of the configuration have more than the limit of %d entries; %s", MaxEntries, divide))
}

// TooManyRepositories returns the result that represents all repositories after the first [MaxRepositories]. The
// arguments are the URL of the first of these repositories, and the number of all repositories of the configuration.
func TooManyRepositories(url string, n int) store.RepositoryResult {
	return exceeding(url, fmt.Errorf("the configuration has %d repositories, more than the limit of %d; divide them among several configurations", n, MaxRepositories))
}

func exceeding(url string, err error) store.RepositoryResult {
	return store.RepositoryResult{
		URL: url, Reason: string(api.FetchingIndexError), Message: api.FetchingIndexError.Message(err), Permanent: true, Fix: divide,
	}
}

// cutMessages returns a copy of r in which long messages are cut.
func cutMessages(r store.RepositoryResult) store.RepositoryResult {
	r.Message = Cut(r.Message, longestMessage)
	r.Addons = slices.Clone(r.Addons)
	for i := range r.Addons {
		r.Addons[i].Message = Cut(r.Addons[i].Message, longestMessage)
	}
	return r
}

// sizeOf returns the size of r in the store. If the texts of its addons alone exceed the limit, sizeOf returns only
// their size, because encoding them would need much memory.
func sizeOf(r store.RepositoryResult) (size int, err error) {
	for _, addons := range [][]store.AddonResult{r.Addons, r.Known} {
		for _, a := range addons {
			size += len(a.Entry) + len(a.EntryVersion) + len(a.EntryError) + len(a.Source) + len(a.ID) + len(a.Name) + len(a.Version) + len(a.Message)
		}
	}
	if size > largestResult {
		return size, nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encode the result of repository %q: %w", tree.Excerpt(r.URL), err)
	}
	return len(text), nil
}
