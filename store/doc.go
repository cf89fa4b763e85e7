// Package store keeps everything that outlives a process: queues, tables and
// history, in one file.
//
// A DB is an open store. All reading and writing is done by a Tx, which
// Update and View hand to a function: Update's function either takes effect
// as a whole, durably, before Update returns, or not at all. A Key names a
// record: its Table and then parts. Records are JSON; Load and Save turn them
// into Go values and back. A Backend is where the bytes are: a bbolt file, or
// a Memory for tests. Of the workflow, the package knows only what a task is
// about: [graph.Subject]. Each Open starts a new epoch. Every commit checks the
// epoch, so that a replaced process can no longer write.
//
// To read the source, follow a record on its way: Save and Tx.Put (tx.go),
// pending (pending.go), Update and lead (commit.go), Commit (bolt.go).
package store
