// Package store keeps all state that outlives a process, in one file: queues, tables and history.
//
// A DB is an open store. A Tx is a transaction, which Update and View pass to a function. When Update returns, either
// all writes of its function are durable, or none. A Key names a record: its Table and its parts. Most records are
// JSON; Load and Save convert them to Go values and back. A Backend stores the bytes: a bbolt file or, for tests and
// plans, a Memory. Of package graph, this package uses only [graph.Subject], the subject of a task. Each Open starts a
// new epoch. Every commit checks the epoch, so that a replaced process cannot write.
//
// To read the source, follow the path of a record: Save and Tx.Put (tx.go), pending (pending.go),
// Update and commitGroup (commit.go), Commit (bolt.go).
package store
