package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/store"
)

// The limits of the addons that one configuration registers. The limits are necessary because one transaction
// replaces all addons of a configuration.
const (
	// MaxAddons is the maximum number of addons of one configuration.
	MaxAddons = 2_000
	// maxText is the maximum length in bytes of an ID, a name or a version.
	maxText = 1 << 10
	// maxRegistered is the maximum size in bytes of the records of all addons of one configuration.
	maxRegistered = 4 << 20
	// recordSize is the approximate size in bytes of the record of one addon, without its texts.
	recordSize = 256
)

// A Position identifies an addon in the results of a round, by the index of the repository and the index of the addon
// in it.
type Position struct{ Repository, Addon int }

// A LimitError is the error for an addon that exceeds a limit, or that occurs twice in its configuration. The
// configuration of such an addon cannot be registered.
type LimitError struct {
	At  Position
	Err error
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LimitError) Unwrap() error { return e.Err }

// A Conflict describes an addon of a round whose ID, or whose pair of name and version, belongs to a registered addon
// of another configuration.
type Conflict struct {
	At Position
	// ID is the ID of the registered addon, and the field With is the record of this addon.
	ID   string
	With store.RegisteredAddon
}

// An offered is an addon of a round that has an ID.
type offered struct {
	id string
	at Position
	store.RegisteredAddon
}

// offersOf returns the addons with an ID in the stored results of a round, in the order of the results.
func offersOf(tx *store.Tx, name string, round store.ID) ([]offered, error) {
	results, err := Results(tx, round)
	return offers(name, results), err
}

// offers returns the addons with an ID in results, in the order of the results.
func offers(name string, results []store.RepositoryResult) (all []offered) {
	for i, r := range results {
		for j, a := range r.Addons {
			if a.ID == "" {
				continue
			}
			all = append(all, offered{id: a.ID, at: Position{i, j}, RegisteredAddon: store.RegisteredAddon{
				Name: a.Name, Version: a.Version, Normal: catalog.NormalizeVersion(a.Version),
				Configuration: name, URL: r.URL, Content: a.Content,
			}})
		}
	}
	return all
}

func conflicts(tx *store.Tx, scope Scope, name string, all []offered) (found []Conflict, err error) {
	for _, o := range all {
		if limit := o.limit(); limit != nil {
			continue // an addon that exceeds a limit is never registered
		}
		c, err := conflictOf(tx, scope, name, o)
		if err != nil {
			return nil, err
		}
		if c != nil {
			found = append(found, *c)
		}
	}
	return found, nil
}

// conflictOf returns the conflict between o, an addon of the configuration with this name, and a registered addon of
// another configuration. It returns nil if there is no conflict. It first compares the ID of o, and then the name and
// version of o. It compares name and version even if the ID is already registered for this configuration.
func conflictOf(tx *store.Tx, scope Scope, name string, o offered) (*Conflict, error) {
	at := func(id string) (*Conflict, error) {
		holder, held, err := load(tx, scope, id)
		if err != nil || !held || holder.Configuration == name {
			return nil, err
		}
		return &Conflict{At: o.at, ID: id, With: holder}, nil
	}
	if c, err := at(o.id); c != nil || err != nil {
		return c, err
	}
	id, named, err := find(tx, scope, o.Name, o.Normal)
	if err != nil || !named {
		return nil, err
	}
	return at(id)
}

// CutText returns text, which is the ID, the name or the version of an addon. If the text is too long to be registered,
// CutText returns only its beginning, which is also too long.
func CutText(text string) string { return Cut(text, maxText+utf8.UTFMax) }

// limit returns an error if the ID, the name or the version of the addon is too long.
func (o offered) limit() error {
	for _, field := range []struct{ name, text string }{{"ID", o.id}, {"name", o.Name}, {"version", o.Version}} {
		if len(field.text) > maxText {
			return fmt.Errorf("the %s of the addon has more than the limit of %d bytes; shorten it in meta.yaml", field.name, maxText)
		}
	}
	return nil
}

// A Round has the data of the latest round of a configuration. [Open] reads the data in a transaction.
type Round struct {
	tx    *store.Tx
	scope Scope
	name  string
	// Configuration is the record of the configuration.
	Configuration store.Configuration
	// Results has the result of each repository. The caller may change reasons and messages in it, and save the
	// changes with [Round.Save].
	Results []store.RepositoryResult
	stored  []store.RepositoryResult // the results as they are in the store
	offered []offered
	// conflicts are the conflicts of the addons in offered. They are computed once, because nothing else changes the
	// registry during the transaction.
	conflicts []Conflict
	compared  bool
}

// Open reads a round. If the round is not the latest one of the configuration, the error wraps [ErrReplaced].
func Open(tx *store.Tx, scope Scope, name string, round store.ID) (*Round, error) {
	c, err := current(tx, scope, name, round)
	if err != nil {
		return nil, err
	}
	r := &Round{tx: tx, scope: scope, name: name, Configuration: c}
	if r.Results, err = Results(tx, round); err != nil {
		return nil, err
	}
	r.offered = offers(name, r.Results)
	r.stored = slices.Clone(r.Results)
	for i := range r.stored {
		r.stored[i].Addons = slices.Clone(r.stored[i].Addons)
	}
	return r, nil
}

// Conflicts returns the addons of the round that conflict with addons of other configurations of
// the scope, in the order of the round.
func (r *Round) Conflicts() (found []Conflict, err error) {
	if !r.compared {
		r.conflicts, err = conflicts(r.tx, r.scope, r.name, r.offered)
		r.compared = err == nil
	}
	return r.conflicts, err
}

// Limits returns the addons of the round that exceed a limit of the registry, in the order of the round. If all
// addons together exceed a limit, Limits returns for this limit only the first addon with which the sum exceeds it.
func (r *Round) Limits() []*LimitError { return limits(r.scope, r.offered) }

// Save stores the results that the caller has changed since Open. It replaces results that have become too large; see
// [Budget.Fit].
func (r *Round) Save() (err error) {
	if reflect.DeepEqual(r.stored, r.Results) {
		return nil
	}
	budget := Budget{}
	for i := range r.Results {
		if r.Results[i], err = budget.Fit(r.Results[i]); err != nil {
			return err
		}
	}
	for i := range r.Results {
		if reflect.DeepEqual(r.stored[i], r.Results[i]) {
			continue
		}
		if r.tx.Spent() {
			return fmt.Errorf("store the results of configuration %s: %w", api.Identity{Namespace: string(r.scope), Name: r.name}, store.ErrTooLarge)
		}
		if err := SaveResult(r.tx, r.scope, r.name, r.Configuration.Round, i, r.Results[i]); err != nil {
			return err
		}
		r.stored[i] = r.Results[i]
		r.stored[i].Addons = slices.Clone(r.Results[i].Addons)
	}
	return nil
}

// Register replaces the registered addons of the configuration by the addons of the round. If an ID, or a pair of name
// and version, belongs to another configuration, Register changes nothing and returns the conflicts. The result freed
// reports whether an ID, or a pair of name and version, became free. If the addons exceed a limit, or if one of them
// occurs twice, the error is a *LimitError.
func (r *Round) Register() (freed bool, found []Conflict, err error) {
	tx, scope, name, c, round := r.tx, r.scope, r.name, r.Configuration, r.Configuration.Round
	if err := r.ready(); err != nil {
		return false, nil, err
	}
	next := r.offered
	if found, err = r.Conflicts(); err != nil || len(found) > 0 {
		return false, found, err
	}
	if err := admissible(scope, next); err != nil {
		return false, nil, err
	}
	var before []offered
	if !c.Registered.IsZero() && c.Registered != round {
		if before, err = offersOf(tx, name, c.Registered); err != nil {
			return false, nil, err
		}
	}
	if freed, err = swap(tx, scope, before, next); err != nil {
		return false, nil, err
	}
	if err := dropBefore(tx, &c); err != nil {
		return false, nil, err
	}
	c.Registered, c.Phase, c.Processed = round, store.PhaseReady, tx.Now()
	c.Attempts, c.Retry, c.Reasons = 0, time.Time{}, ""
	return freed, nil, errors.Join(save(tx, scope, name, c), collect(tx))
}

// admissible returns an error if the addons exceed a limit, or if two of them have the same ID or the same name and
// version.
func admissible(scope Scope, all []offered) error {
	if found := limits(scope, all); len(found) > 0 {
		return found[0]
	}
	ids, names := map[string]bool{}, map[[2]string]bool{}
	for _, o := range all {
		var err error
		switch {
		case ids[o.id]:
			err = fmt.Errorf("ID %q occurs twice in the configuration", o.id)
		case names[[2]string{o.Name, o.Normal}]:
			err = fmt.Errorf("addon %s of version %s occurs twice in the configuration", o.Name, o.Version)
		}
		if err != nil {
			return &LimitError{At: o.at, Err: err}
		}
		ids[o.id], names[[2]string{o.Name, o.Normal}] = true, true
	}
	return nil
}

// limits returns an error for each addon that exceeds a limit by itself. If all addons together exceed a limit, limits
// returns one more error, for the first addon with which the sum exceeds it.
func limits(scope Scope, all []offered) (found []*LimitError) {
	size, full := 0, false
	for i, o := range all {
		err := o.limit()
		size += 2*len(scope) + 2*len(o.id) + 2*len(o.Name) + 2*len(o.Normal) + len(o.Version) + len(o.Configuration) + len(o.URL) + recordSize
		switch {
		case err != nil || full:
		case i >= MaxAddons:
			full = true
			err = fmt.Errorf("the configuration has %d addons, the limit is %d; divide its repositories among several configurations",
				len(all), MaxAddons)
		case size > maxRegistered:
			full = true
			err = fmt.Errorf("the addons of the configuration need more than %d MiB in the registry; divide its repositories among several configurations",
				maxRegistered>>20)
		}
		if err != nil {
			found = append(found, &LimitError{At: o.at, Err: err})
		}
	}
	return found
}

// ready returns an error if a repository or an addon of the round failed, or if an addon was not loaded.
func (r *Round) ready() error {
	round := r.Configuration.Round
	for _, result := range r.Results {
		if result.Reason != "" {
			return fmt.Errorf("register round %s: repository %q failed: %s", round, result.URL, result.Reason)
		}
		for _, a := range result.Addons {
			if a.Reason != "" || a.ID == "" || a.Content == "" {
				return fmt.Errorf("register round %s: addon %s of version %s failed or was not loaded: %s", round, a.Entry, a.EntryVersion, a.Reason)
			}
		}
	}
	return nil
}

// swap replaces the registered addons in the argument before by the addons in the argument next. It reports whether
// an ID, or a pair of name and version, became free.
func swap(tx *store.Tx, scope Scope, before, next []offered) (freed bool, err error) {
	keeps := map[string]bool{}
	for _, o := range next {
		keeps[string(o.key(scope))], keeps[string(o.nameKey(scope))] = true, true
	}
	for _, o := range before {
		for _, k := range []store.Key{o.key(scope), o.nameKey(scope)} {
			if !keeps[string(k)] {
				tx.Delete(k)
				freed = true
			}
		}
	}
	for _, o := range next {
		if err := errors.Join(saveChanged(tx, o.key(scope), o.RegisteredAddon), saveChanged(tx, o.nameKey(scope), o.id)); err != nil {
			return false, err
		}
	}
	return freed, nil
}

func (o offered) key(scope Scope) store.Key { return store.AddonKey(string(scope), o.id) }

func (o offered) nameKey(scope Scope) store.Key {
	return store.AddonNameKey(string(scope), o.Name, o.Normal)
}

// saveChanged writes v under the key k. It does not write if the store already has the same value under this key.
func saveChanged[T any](tx *store.Tx, k store.Key, v T) error {
	value, err := json.Marshal(v)
	if err != nil || bytes.Equal(tx.Get(k), value) {
		return err
	}
	tx.Put(k, value)
	return nil
}

// Reject ends a round without registering its addons. After that, the configuration has no registered addons. The
// results and contents of the round are kept until the next round ends. The result freed reports whether addons were
// unregistered.
func Reject(tx *store.Tx, scope Scope, name string, round store.ID) (freed bool, err error) {
	c, err := current(tx, scope, name, round)
	if err != nil {
		return false, err
	}
	if freed, err = unregister(tx, scope, name, c.Registered); err != nil {
		return false, err
	}
	if err := dropBefore(tx, &c); err != nil {
		return false, err
	}
	c.Registered, c.Phase, c.Processed = store.ID{}, store.PhaseFailed, tx.Now()
	return freed, errors.Join(save(tx, scope, name, c), collect(tx))
}

// Withdraw unregisters the addons of a configuration, deletes its record, and drops its rounds. The configuration can
// have any phase. The result freed reports whether addons were unregistered. The caller must have called [Recover] in
// the same transaction.
func Withdraw(tx *store.Tx, scope Scope, name string) (freed bool, err error) {
	c, ok, err := Lookup(tx, scope, name)
	if err != nil || !ok {
		return false, err
	}
	if freed, err = unregister(tx, scope, name, c.Registered); err != nil {
		return false, err
	}
	if err := errors.Join(dropBefore(tx, &c), drop(tx, c.Round)); err != nil {
		return false, err
	}
	tx.Delete(store.ConfigurationKey(string(scope), name))
	return freed, collect(tx)
}

// dropBefore drops the rounds before the latest round of c. It is called when the latest round ends, and when the
// configuration is withdrawn.
func dropBefore(tx *store.Tx, c *store.Configuration) error {
	earlier := c.Earlier
	c.Earlier = store.ID{}
	if c.Registered == c.Round {
		return drop(tx, earlier)
	}
	return errors.Join(drop(tx, earlier), drop(tx, c.Registered))
}

// unregister deletes the registered addons of a configuration. The argument registered is the round with which they
// were registered. The result freed reports whether addons were deleted.
func unregister(tx *store.Tx, scope Scope, name string, registered store.ID) (freed bool, err error) {
	if registered.IsZero() {
		return false, nil
	}
	before, err := offersOf(tx, name, registered)
	if err != nil {
		return false, err
	}
	return swap(tx, scope, before, nil)
}
