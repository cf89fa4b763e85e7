package triggers

import (
	"addon-operator/store"
	"addon-operator/workflow"
)

// A raiserFunc is a function that implements workflow.Raiser.
type raiserFunc func(tx *store.Tx, events ...workflow.Event) error

func (f raiserFunc) Raise(tx *store.Tx, events ...workflow.Event) error { return f(tx, events...) }
