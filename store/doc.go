// Package store keeps the state that outlives a process: the pending tasks, the state of modules and hooks, and the
// history. All records are in one file.
//
// A DB is an open store. A Tx is a transaction, which Update and View pass to a function. When Update returns, either
// all writes of its function are durable, or none. A Key names a record: its Table and its parts. Most records are
// JSON; Load and Save convert them to Go values and back. A Backend stores the bytes of the records: in a bbolt file
// or, for tests and plans, in a Memory. Of package graph, this package uses only [graph.Subject], the subject of a
// task. Each Open starts a new epoch. Every commit checks the epoch, so that a replaced process cannot write.
//
// To read the source, follow the path of a record: Save and Tx.Put (tx.go), pending (pending.go),
// Update and commitGroup (commit.go), Commit (bolt.go).
package store
