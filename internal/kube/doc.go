// Package kube connects to a cluster, watches its objects, and reads and writes the operator's ConfigMap.
//
// These are the terms of the package, from the connection to the watches:
//
//   - A client has connections to one API server. All users of the client use the same connections.
//   - A kind is a kind of objects that the API server currently serves. [Kinds] says when the API server starts to
//     serve a kind.
//   - A source is the set of objects that one list and its watch contain: the objects of a kind, in one namespace or in
//     all namespaces, that have certain names, labels and fields. For each receiver, there is one watch for all owners
//     of a source.
//   - A filter is a compiled jq program that selects the relevant content of an object.
//   - A view consists of the results of a filter for the objects of a source. A receiver can store a durable cursor for
//     each view.
//   - A selection says which objects a monitor follows: a kind, and optionally names, namespaces, labels and fields. A
//     selection consists of any number of sources. The sources may change when namespaces are created or deleted, or
//     get other labels.
//   - A monitor follows one selection with one filter for one owner. Its snapshot contains the current objects.
//   - [Watches] runs all monitors and delivers changes to a receiver, in batches and in order. It delivers a batch
//     again until the receiver accepts it.
//
// The package does not know what an owner is, or what a receiver does with the objects that it gets.
package kube
