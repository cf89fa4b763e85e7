// Package store is below workflow.
package store

// Door is a [Step] of workflow, which does not name it.
type Door struct{}

// Do ends the path.
func (Door) Do() { open() }

func open() { unlock() }
