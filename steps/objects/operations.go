package objects

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"addon-operator/internal/operation"
	"addon-operator/workflow"
)

// EffectKind is the kind of the effects that [Operations.Effects] returns.
const EffectKind = "object operation"

// Operations are the operations of one run of a hook, in the order in which the hook wrote them.
type Operations []operation.Operation

// Parse reads the operations that a hook has written.
func Parse(text []byte) (Operations, error) { return operation.Parse(text) }

// Effects returns one effect for each operation. The argument at must be a time before the run of the hook. The
// argument last says whether these are the last effects of the outcome.
func (ops Operations) Effects(at time.Time, last bool) ([]workflow.Effect, error) {
	var effects []workflow.Effect
	for i, o := range ops {
		data, err := json.Marshal(step{Number: i + 1, Total: len(ops), Last: last && i+1 == len(ops), At: at, Operation: o})
		if err != nil {
			return nil, fmt.Errorf("$KUBERNETES_PATCH_PATH: operation %d: %w", i+1, err)
		}
		effects = append(effects, workflow.Effect{Kind: EffectKind, Data: data})
	}
	return effects, nil
}

// A step is one operation of a run of a hook. It is stored as the data of an effect.
type step struct {
	// Number is the number of the operation in the run, from 1 to Total.
	Number int `json:"nth"`
	Total  int `json:"of"`
	// Last is true if this is the last effect of the outcome.
	Last bool `json:"last,omitempty"`
	// The field At is the time at which the input of the hook was read, before the hook ran. An object that was
	// created before this time was not created by the operation.
	At        time.Time           `json:"at"`
	Operation operation.Operation `json:"operation"`
}

// String returns the operation for messages.
func (s step) String() string {
	return fmt.Sprintf("operation %d of %d (%s)", s.Number, s.Total, s.Operation)
}

// kind returns the apiVersion and the kind of the operation's object as one text, to compare kinds.
func (s step) kind() string {
	return s.Operation.APIVersion + " " + strings.ToLower(s.Operation.Kind)
}
