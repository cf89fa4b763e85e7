package addons

import (
	"time"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog/source"
	"addon-operator/internal/retry"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
)

// A Runtime has the dependencies and settings that the steps of the addons graph share.
type Runtime struct {
	DB             *store.DB
	Configurations *Configurations
	Fetcher        *source.Fetcher
	Retry          retry.Delays // delays between two rounds of a configuration that is not Ready
	// AllAsModules is true if the addons of every ClusterAddonsConfiguration can be used as
	// modules, not only those of configurations with the annotation for modules.
	AllAsModules bool
	// ImageModules returns the path of each module that is not made from an addon, by name. It can
	// be nil if there are none.
	ImageModules func() (map[string]string, error)
	// Fetches is called before a repository and its addons are fetched. The returned function is called after the
	// fetch, with the reason of a failure or "". Fetches can be nil.
	Fetches func(scope registry.Scope) (ends func(reason api.Reason))
	// Settled is called when a round of a configuration has ended. due is the time of the next
	// attempt, or zero if the next round begins only after a change. Settled must not block. It can
	// be nil.
	Settled func(id api.Identity, due time.Time)
	// Failed is called when a configuration has failed, unless the previous round has failed for
	// the same reasons. It must not block. It can be nil.
	Failed func(id api.Identity, summary string, problems []string)
	// FetchWithin is the maximum time for fetching all repositories of a configuration; 0 means
	// [DefaultFetchWithin].
	FetchWithin time.Duration

	// fetches are the running fetches.
	fetches fetches
	// fetching bounds the number of goroutines that fetch, in addition to one for each
	// configuration.
	fetching chan struct{}
	// parsing bounds the number of indexes and addons that are unpacked and parsed at the same
	// time.
	parsing chan struct{}
	// indexes is the cache of parsed indexes.
	indexes *indexes
}

// DefaultFetchWithin is the maximum time for fetching all repositories of a configuration. Each request has a timeout
// of its own. But a configuration can name many addons on a server that hangs, so their timeouts can add up.
const DefaultFetchWithin = 10 * time.Minute

// mostParsed is the maximum number of indexes and addons that are unpacked and parsed at the same time. The limit
// bounds the memory that parsing needs.
const mostParsed = 4

// mostFetching is the maximum number of goroutines that fetch, in addition to one for each configuration. It bounds
// the number of parallel requests.
const mostFetching = 256

// identityOf returns the identity of the configuration that t processes.
func identityOf(t workflow.Task) api.Identity { return api.ParseIdentity(t.Subject.Configuration) }

// scopeOf returns the scope in which a configuration registers addons.
func scopeOf(id api.Identity) registry.Scope { return registry.Scope(id.Namespace) }

// settled calls Settled after the commit of tx, if Settled is not nil.
func (r *Runtime) settled(tx *store.Tx, id api.Identity, due time.Time) {
	if r.Settled != nil {
		tx.OnCommit(func() { r.Settled(id, due) })
	}
}

// record returns the record of a configuration, or the zero value if there is none.
func (r *Runtime) record(id api.Identity) (c store.Configuration, err error) {
	err = r.DB.View(func(tx *store.Tx) (err error) {
		c, _, err = registry.Lookup(tx, scopeOf(id), id.Name)
		return err
	})
	return c, err
}

// results returns the record of a configuration, and the results of its latest round so far.
func (r *Runtime) results(id api.Identity) (c store.Configuration, all []store.RepositoryResult, err error) {
	err = r.DB.View(func(tx *store.Tx) (err error) {
		if c, _, err = registry.Lookup(tx, scopeOf(id), id.Name); err != nil {
			return err
		}
		all, err = registry.Results(tx, c.Round)
		return err
	})
	return c, all, err
}

// Interrupt cancels the running fetch of a configuration if the fetch is of an older generation, or
// if the configuration is being deleted. So a server that hangs does not delay a corrected spec or
// a deletion. Interrupt does not block.
func (r *Runtime) Interrupt(id api.Identity, uid string, generation int64, deleted bool) {
	r.fetches.interrupt(id, uid, generation, deleted)
}
