package steps

import (
	"time"

	"addon-operator/internal/values"
	"addon-operator/steps/sections"
	"addon-operator/steps/stale"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// decided is the result of a discovery for one module.
type decided struct {
	Name    string `json:"name"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"`
	Broken  string `json:"broken,omitempty"`
	// Defines is set if the module has CRDs.
	Defines bool `json:"defines,omitempty"`
	// Addon is the content of the addon that the module is made from.
	Addon string `json:"addon,omitempty"`
}

// discovered is the data of discoverStep's outcome.
type discovered struct {
	Modules []decided `json:"modules"`
	Enabled []string  `json:"enabled"`
	// Left names the modules and releases that a first converge leaves to the next one.
	Left []string `json:"left,omitempty"`
	// Dropped has, by section, the saved operations that the schemas no longer accept.
	Dropped sections.Unfit `json:"dropped,omitempty"`
	// Stale are bindings that their hooks no longer have.
	Stale []stale.Binding `json:"outlived,omitempty"`
	// Blocked are the problems of releases whose deletion a safety check blocked.
	Blocked []store.Problem `json:"withheld,omitempty"`
	// Allowed is when a person allowed the deletions of this discovery; zero if nobody did.
	Allowed time.Time `json:"allowed,omitzero"`
	// Whole is set if the directories have all existing modules, so that other modules no longer
	// exist.
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

// known is the state in the store before a discovery.
type known struct {
	layers           values.Layers
	enabledOverrides map[string]values.EnabledOverride
	startup          store.Startup
	modules          map[string]store.Module
	config           store.AppliedConfig
	hooks            map[string]error // by module, why its hooks cannot be used
	allowed          store.AllowedPurge
}

func items(names []string) []graph.Item {
	out := make([]graph.Item, len(names))
	for i, name := range names {
		out[i].Subject.Module = name
	}
	return out
}
