package steps

import (
	"errors"
	"time"

	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// decided is what discovery came to for one module.
type decided struct {
	Name    string `json:"name"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"`
	Broken  string `json:"broken,omitempty"`
	// Defines is set where the module brings CRDs.
	Defines bool `json:"defines,omitempty"`
	// Addon is the content of the addon that the module is made from.
	Addon string `json:"addon,omitempty"`
}

// discovered is the data of its outcome.
type discovered struct {
	Modules []decided `json:"modules"`
	Enabled []string  `json:"enabled"`
	// Left names what a first converge leaves to the next one.
	Left []string `json:"left,omitempty"`
	// Dropped holds, by section, the saved operations that schemas do not take any
	// more.
	Dropped map[string][]values.Saved `json:"dropped,omitempty"`
	// Stale are bindings that their hooks have no more.
	Stale []staleBinding `json:"outlived,omitempty"`
	// Blocked are the problems of releases whose deletion a safety check blocked.
	Blocked []store.Problem `json:"withheld,omitempty"`
	// Allowed is when a person allowed the deletions of this discovery; zero if nobody did.
	Allowed time.Time `json:"allowed,omitzero"`
	// Whole is set where the directories hold all modules there are, so that
	// those which they do not hold are gone.
	Whole bool `json:"whole"`
}

func (d *discovered) broken() (n int) {
	for _, m := range d.Modules {
		if m.Broken != "" {
			n++
		}
	}
	return n
}

// known is what the store has for a discovery.
type known struct {
	layers           values.Layers
	enabledOverrides map[string]values.EnabledOverride
	startup          store.Startup
	modules          map[string]store.Module
	config           store.AppliedConfig
	hooks            map[string]error // by module, why its hooks cannot be used
	allowed          store.AllowedPurge
}

// modulesKnown returns the records of all modules by name.
func modulesKnown(tx *store.Tx) (map[string]store.Module, error) {
	return modulesBut(tx, func(error) bool { return false })
}

// readableModules is modulesKnown without the modules whose records cannot be read.
func readableModules(tx *store.Tx) (map[string]store.Module, error) {
	return modulesBut(tx, func(err error) bool { return errors.As(err, new(*store.RecordError)) })
}

// modulesBut returns the records of all modules but of those whose errors passes accepts.
func modulesBut(tx *store.Tx, passes func(error) bool) (map[string]store.Module, error) {
	known := map[string]store.Module{}
	for key := range tx.Range(store.At(store.Modules)) {
		m, _, err := store.Load[store.Module](tx, key)
		if passes(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := key.Parts()
		if err != nil {
			return nil, err
		}
		known[p.Str()] = m
	}
	return known, nil
}

func items(names []string) []graph.Item {
	out := make([]graph.Item, len(names))
	for i, name := range names {
		out[i].Subject.Module = name
	}
	return out
}

// started reports whether a run of the module has come to its end since the
// current start.
func started(record store.Module, l store.Startup) bool {
	return record.State == store.On && record.StartedIn == l.StartRun
}

// foundHooks are a module's hooks as they are on disk.
type foundHooks struct {
	Digest string                `json:"digest"`
	Hooks  map[string]store.Hook `json:"hooks"`
	// unasked are the hooks that did not answer --config.
	unasked []string
}

// A moduleCheck is the data of the outcome of the first step of a module run.
type moduleCheck struct {
	foundHooks

	// Broken is why the module cannot be loaded.
	Broken string `json:"broken,omitempty"`
	// Addon is the content of the addon that the module is made from.
	Addon string `json:"addon,omitempty"`
}

// A staleBinding is one that the API server asks and that its hook, as it
// is now, has no more. The hook's turn comes with its module's run, which
// the binding must not hold up: it could have requests of modules before it
// denied for ever.
type staleBinding struct {
	Subject graph.Subject `json:"subject"`
	// Owner is the checksum of the hook that had the binding.
	Owner string `json:"of"`
}

// An unaskedError says that hooks of a module did not answer --config. It holds the others.
type unaskedError struct {
	found foundHooks
	err   error
}

func (e *unaskedError) Error() string { return e.err.Error() }
func (e *unaskedError) Unwrap() error { return e.err }
