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
	// If AllAsModules is true, the addons of every ClusterAddonsConfiguration can be used as modules. Otherwise only
	// the addons of configurations with the annotation for modules can.
	AllAsModules bool
	// ImageModules returns the paths of the modules that are not made from addons, by name. ImageModules can be nil,
	// which means that there are no such modules.
	ImageModules func() (map[string]string, error)
	// Fetches is called before a repository and its addons are fetched. It returns the function ends, which is called
	// after the fetch, with the reason if the fetch failed, or else "". The function ends is not called if the fetch
	// was canceled, or if an error of the store has ended it. Fetches can be nil.
	Fetches func(scope registry.Scope) (ends func(reason api.Reason))
	// Settled is called when the time of the next attempt at a configuration is known, for example after a round, and
	// when the configuration is unregistered. The argument due is this time, or zero if the next round begins only
	// after a change. Settled must not block. It can be nil.
	Settled func(id api.Identity, due time.Time)
	// Failed is called when a round of a configuration has failed. It is not called if the previous round failed for
	// the same reasons. It must not block. It can be nil.
	Failed func(id api.Identity, summary string, problems []string)
	// Damaged is called when the record of a configuration could not be read and was moved to the table of damaged
	// records. It must not block. It can be nil.
	Damaged func(store.Damaged)
	// FetchWithin is the maximum time for fetching all repositories of a configuration; 0 means
	// [DefaultFetchWithin].
	FetchWithin time.Duration

	// fetches holds the running fetches, so that they can be canceled.
	fetches fetches
	// fetching is a semaphore for the goroutines that fetch. The first goroutine of each configuration does not need
	// it.
	fetching chan struct{}
	// parsing is a semaphore for the unpacking and parsing of indexes and addons.
	parsing chan struct{}
	// indexes is the cache of parsed indexes.
	indexes *indexes
}

// DefaultFetchWithin is the maximum time for fetching all repositories of a configuration. The timeout of each
// request is not enough: a repository can have many addons on a server that hangs, and the timeouts of their requests
// add up.
const DefaultFetchWithin = 10 * time.Minute

// mostParsed is the maximum number of indexes and addons that are unpacked and parsed at the same time. The limit
// keeps the memory for parsing small.
const mostParsed = 4

// mostFetching is the maximum number of goroutines that fetch, in addition to one for each configuration. It limits
// the number of parallel requests.
const mostFetching = 256

// identityOf returns the identity of the configuration that t processes.
func identityOf(t workflow.Task) api.Identity { return api.ParseIdentity(t.Subject.Configuration) }

// scopeOf returns the scope in which the configuration id registers its addons.
func scopeOf(id api.Identity) registry.Scope { return registry.Scope(id.Namespace) }

// settled calls Settled after the commit of tx, if Settled is not nil.
func (r *Runtime) settled(tx *store.Tx, id api.Identity, due time.Time) {
	if r.Settled != nil {
		tx.OnCommit(func() { r.Settled(id, due) })
	}
}

// postpone plans another attempt at the configuration of task t. It is called when a person has skipped t, so the round
// of the configuration has not ended. If r.Retry has delays only for temporary failures, postpone plans no attempt, and
// the next attempt follows a change of the configuration.
func (r *Runtime) postpone(tx *store.Tx, t workflow.Task) error {
	r.settled(tx, identityOf(t), r.Retry.Next(tx.Now(), 0))
	return nil
}

// dropDamaged unregisters the addons of a configuration whose record cannot be read; see [registry.Recover]. It reports
// whether addons were unregistered.
func (r *Runtime) dropDamaged(tx *store.Tx, id api.Identity) (freed bool, err error) {
	lost, freed, err := registry.Recover(tx, scopeOf(id), id.Name)
	if lost != nil && r.Damaged != nil {
		tx.OnCommit(func() { r.Damaged(*lost) })
	}
	return freed, err
}

// record returns the record of a configuration, or the zero value if the store has none.
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

// Interrupt cancels the running fetch of a configuration if the fetch began for another UID or an older generation,
// or if the configuration is being deleted. So a server that hangs does not delay a corrected spec or a deletion.
// Interrupt does not block.
func (r *Runtime) Interrupt(id api.Identity, uid string, generation int64, deleted bool) {
	r.fetches.interrupt(id, uid, generation, deleted)
}
