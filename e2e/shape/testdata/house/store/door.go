// Package store is below workflow.
package store

// Door implements Step of package workflow without naming it.
type Door struct{}

// Do ends the path.
func (Door) Do() { open() }

func open() { unlock() }
