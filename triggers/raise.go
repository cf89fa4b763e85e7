package triggers

import (
	"addon-operator/store"
	"addon-operator/workflow"
)

// A Raiser adds the tasks of events to the store as part of a transaction. *workflow.Engine is a Raiser.
type Raiser interface {
	Raise(tx *store.Tx, events ...workflow.Event) error
}
