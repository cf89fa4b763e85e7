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

// A Runtime is what the steps work with.
type Runtime struct {
	DB             *store.DB
	Configurations *Configurations
	Fetcher        *source.Fetcher
	Retry          retry.Delays // between two rounds of a configuration that is not Ready
	// AllAsModules makes the addons of every ClusterAddonsConfiguration usable as modules, not only of
	// those marked so.
	AllAsModules bool
	// ImageModules returns the path of each module that is not made from an addon, by name. Nil means
	// that there are none.
	ImageModules func() (map[string]string, error)
	// Fetches is called before a repository with its addons is fetched, and ends with the reason why it
	// could not be; empty if it was. Nil is silence.
	Fetches func(scope registry.Scope) (ends func(reason api.Reason))
	// Settled is called when a round of a configuration has ended. Due is when the next one begins
	// without a change; zero if it does not. It must not block. Nil is silence.
	Settled func(id api.Identity, due time.Time)
	// Failed is called when a configuration has become Failed, or failed for other reasons than before. It
	// must not block. Nil is silence.
	Failed func(id api.Identity, summary string, problems []string)
	// FetchWithin bounds the time in which all repositories of a configuration are fetched; 0 is
	// [DefaultFetchWithin].
	FetchWithin time.Duration

	// fetches are the running ones.
	fetches fetches
	// fetching bounds the goroutines that fetch, beside one for each configuration.
	fetching chan struct{}
	// parsing bounds how many indexes and addons are unpacked and parsed at the same time.
	parsing chan struct{}
	// indexes are the parsed ones.
	indexes *indexes
}

// DefaultFetchWithin is the time in which all repositories of a configuration are fetched. Each request
// has its own limit, but a configuration can name many addons of a server that hangs.
const DefaultFetchWithin = 10 * time.Minute

// mostParsed is how many indexes and addons are unpacked and parsed at the same time. It bounds the
// memory for them.
const mostParsed = 4

// mostFetching is how many goroutines fetch, beside one for each configuration. It is the number of
// requests that run at the same time.
const mostFetching = 256

// identityOf returns the configuration that t is about.
func identityOf(t workflow.Task) api.Identity { return api.ParseIdentity(t.Subject.Configuration) }

// scopeOf returns the scope in which a configuration registers addons.
func scopeOf(id api.Identity) registry.Scope { return registry.Scope(id.Namespace) }

// settled reports the end of a round when tx is committed.
func (r *Runtime) settled(tx *store.Tx, id api.Identity, due time.Time) {
	if r.Settled != nil {
		tx.OnCommit(func() { r.Settled(id, due) })
	}
}

// record returns what the store knows of a configuration: the zero value if it knows nothing.
func (r *Runtime) record(id api.Identity) (c store.Configuration, err error) {
	err = r.DB.View(func(tx *store.Tx) (err error) {
		c, _, err = registry.Lookup(tx, scopeOf(id), id.Name)
		return err
	})
	return c, err
}

// results returns the latest round of a configuration and what it has found so far.
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

// Interrupt ends the running fetch of a configuration if it is of another generation than the current
// one, or if the configuration is being deleted. A server that hangs thus delays neither a corrected
// spec nor a deletion. It does not block.
func (r *Runtime) Interrupt(id api.Identity, uid string, generation int64, deleted bool) {
	r.fetches.interrupt(id, uid, generation, deleted)
}
