// Package lease implements the Lease of a namespace, which ensures that only one operator works in
// the namespace.
//
// With ADDON_OPERATOR_HA=true, flant/addon-operator uses a Lease of the same name for its leader election. Such an
// operator and this one never work at the same time: one waits until the other ends. A process acquires the Lease,
// renews it periodically, and releases it before the process ends, unless the process is killed. [Lease.Check] reports
// at any time whether the process may still act. Check compares the local clock with the time of the last renewal that
// the API server has confirmed. So the result of Check is also correct directly after a pause of the process.
//
// Three annotations identify the last operator: the ID of its store, its epoch, and the term, which
// is the value of spec.leaseTransitions when the operator acquired the Lease. If spec.leaseTransitions
// differs from the recorded term, the last holder was another program, which does not write the
// annotations.
//
// The package does not use client-go's leader elector. The elector hides the errors of the API
// server, writes no annotations, and polls while it waits. It also releases the Lease when a
// renewal fails, although the protected work may still run.
package lease
