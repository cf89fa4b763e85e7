package registry

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"addon-operator/internal/api"
	"addon-operator/internal/tree"
	"addon-operator/store"
)

// A Scope identifies a registry of addons. It is the name of a namespace, or [Cluster] for cluster-wide
// configurations.
type Scope string

// Cluster is the scope of cluster-wide configurations.
const Cluster Scope = ""

// ErrReplaced means that a newer round of the configuration has begun, that the configuration was withdrawn, or that
// its record is lost. The results of the round are not needed any more.
var ErrReplaced = errors.New("the round was replaced by a newer one")

// Lookup returns the record of a configuration, and whether the store has one. A record that cannot be read is treated
// as missing.
func Lookup(tx *store.Tx, scope Scope, name string) (store.Configuration, bool, error) {
	c, ok, err := store.Load[store.Configuration](tx, store.ConfigurationKey(string(scope), name))
	if unreadable(err) != nil {
		return store.Configuration{}, false, nil //nolint:nilerr // Recover reports the error
	}
	return c, ok, err
}

// unreadable returns the [store.RecordError] in err, which means that a record cannot be read. If err contains none,
// unreadable returns nil.
func unreadable(err error) *store.RecordError {
	damaged := (*store.RecordError)(nil)
	errors.As(err, &damaged)
	return damaged
}

func save(tx *store.Tx, scope Scope, name string, c store.Configuration) error {
	return store.Save(tx, store.ConfigurationKey(string(scope), name), c)
}

// current returns the record of the configuration. If round is not its latest round, the error wraps ErrReplaced.
func current(tx *store.Tx, scope Scope, name string, round store.ID) (store.Configuration, error) {
	c, ok, err := Lookup(tx, scope, name)
	if err == nil && (!ok || c.Round != round) {
		err = fmt.Errorf("process configuration %s: %w", api.Identity{Namespace: string(scope), Name: name}, ErrReplaced)
	}
	return c, err
}

// SaveResult stores the result of the i-th repository. It replaces an earlier result of the same repository in the same
// round. The round must be a holder of all contents that the result names. Long messages are cut. If a result may be
// too large, the caller must first pass it to [Budget.Fit].
func SaveResult(tx *store.Tx, scope Scope, name string, round store.ID, i int, r store.RepositoryResult) error {
	if _, err := current(tx, scope, name, round); err != nil {
		return err
	}
	r = cutMessages(r)
	for _, addons := range [][]store.AddonResult{r.Addons, r.Known} {
		for _, a := range addons {
			if a.Content != "" && tx.Get(store.HoldKey(store.RoundHolder(round), a.Content)) == nil {
				return fmt.Errorf("store the result of repository %q: the round does not hold content %s", tree.Excerpt(r.URL), a.Content)
			}
		}
	}
	key := store.ResultKey(round, i)
	if err := store.Save(tx, key, r); err != nil {
		return err
	}
	if n := len(tx.Get(key)); n > largestResult {
		return fmt.Errorf("store the result of repository %q: it has %d bytes, the limit is %d: %w",
			tree.Excerpt(r.URL), n, largestResult, store.ErrTooLarge)
	}
	return nil
}

// Cut returns text. If the length of text in bytes exceeds the argument most, Cut returns only the beginning, up to
// this length, followed by "…".
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Results returns the results of a round, in the order of the repositories.
func Results(tx *store.Tx, round store.ID) ([]store.RepositoryResult, error) {
	var results []store.RepositoryResult
	for k := range tx.Range(store.ResultsOf(round)) {
		r, _, err := store.Load[store.RepositoryResult](tx, k)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// ProvideModules stores whether a configuration has the annotation for modules. It also stores the argument image:
// the checksum of the names of the modules in the operator's image with which the addons of the configuration were
// compared.
func ProvideModules(tx *store.Tx, scope Scope, name string, modules bool, image string) error {
	c, ok, err := Lookup(tx, scope, name)
	if err != nil || !ok || c.Modules == modules && c.Image == image {
		return err
	}
	c.Modules, c.Image = modules, image
	return save(tx, scope, name, c)
}

// A Failure describes a round that failed.
type Failure struct {
	// Reasons is a checksum of the reasons for which the round failed.
	Reasons string
	// Attempts is the number of consecutive rounds that failed for a temporary reason.
	Attempts int
	// Due is the time of the next round; zero if none is planned.
	Due time.Time
}

// NoteFailure stores the failure of a rejected round. The result changed is false if the previous complete round failed
// for the same reasons, and otherwise true.
func NoteFailure(tx *store.Tx, scope Scope, name string, round store.ID, f Failure) (changed bool, err error) {
	c, err := current(tx, scope, name, round)
	if err != nil {
		return false, err
	}
	changed = c.Reasons != f.Reasons
	c.Attempts, c.Retry, c.Reasons = f.Attempts, f.Due, f.Reasons
	return changed, save(tx, scope, name, c)
}
