// Package lease keeps the Lease that lets one operator work in a namespace.
//
// The Lease has the name that the existing addon-operator uses for its leader election, so that either waits for the
// other. A process acquires it, renews it while it works, and releases it at its end. [Lease.Check] tells at any instant
// whether the process may still act: it compares the local clock with the last renewal that the API server confirmed,
// and so holds after a pause of the process as well, when nothing else has noticed yet.
//
// Three annotations say who worked last: the store, its epoch, and the term (spec.leaseTransitions) in which both were
// written. A term without them was one of a program that does not write them.
//
// client-go's leader elector is not used: it hides the API server's errors, keeps no annotations, polls while it waits,
// and releases the Lease when a renewal fails, while the work it guards may still run.
package lease
