package triggers

import (
	"addon-operator/store"
	"addon-operator/workflow"
)

// Raise adds the tasks of events to the store as part of a transaction.
type Raise func(tx *store.Tx, events ...workflow.Event) error
