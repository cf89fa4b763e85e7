// Package store keeps all state that outlives a process, in one file: queues, tables and history.
//
// A DB is an open store. A Tx is a transaction, which Update and View pass to a function. The
// writes of Update's function are durable as a whole when Update returns, or they have no effect. A
// Key names a record: its Table and its parts. Records are JSON; Load and Save convert them to Go
// values and back. A Backend stores the bytes: a bbolt file, or a Memory for tests. The only type
// of the workflow in this package is the subject of a task: [graph.Subject]. Each Open starts a new
// epoch. Every commit checks the epoch, so that a replaced process can no longer write.
//
// To read the source, follow the path of a record: Save and Tx.Put (tx.go), pending (pending.go),
// Update and commitGroup (commit.go), Commit (bolt.go).
package store
