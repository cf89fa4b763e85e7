package hookio

import (
	"time"

	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookmetrics"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Input is the state that was read from the store before a run of a hook.
type Input struct {
	// Hook is the hook with its current path.
	Hook bindings.Hook
	// At is the time at which the state was read; zero for a run that is not a task.
	At time.Time

	subject graph.Subject
	code    Code
	layers  values.Layers
	bases   map[string]string // checksum of the values of each section that the hook may change
	enabled []string          // names of the enabled modules; nil if the hook does not receive them
	metrics func(text []byte) (hookmetrics.Operations, error)
	secret  []byte // key for the checksums of redacted values
}

// readLayers reads the bases, and after that the layers, of the section and of the global section. Because of this
// order, the layers are never older than the bases, even if a scan replaces the modules between the two reads.
func (in *Input) readLayers(tx *store.Tx, v *desired.Values, section string) (err error) {
	in.secret = store.RedactionSecret(tx)
	in.bases = map[string]string{}
	for _, key := range []string{section, values.Global} {
		if in.bases[key], err = v.Base(tx, key); err != nil {
			return err
		}
	}
	in.layers, err = v.LayersOf(tx, section)
	return err
}
