// Package lease implements the Lease that lets only one operator work in a namespace.
//
// The Lease has the name that the existing addon-operator uses for its leader election, so that each
// waits for the other. A process acquires the Lease, renews it while it works, and releases it at its
// end. [Lease.Check] reports at any time whether the process may still act: it compares the local clock
// with the last renewal that the API server confirmed. So it is also correct directly after a pause of
// the process.
//
// Three annotations identify the last operator: the store, its epoch, and the term
// (spec.leaseTransitions) in which both were written. If the term differs, another program, which does
// not write the annotations, was the last holder.
//
// It does not use client-go's leader elector, which hides the errors of the API server, keeps no
// annotations, polls while it waits, and releases the Lease when a renewal fails, although the protected
// work may still run.
package lease
