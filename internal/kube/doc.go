// Package kube connects to a cluster, watches its objects and reads and writes the operator's
// ConfigMap.
//
// The terms of the package, from the connection to the watches:
//
//   - A client is one set of connections to one API server. All users of the client share them.
//   - A kind is an object kind that the API server serves now. [Kinds] reports when a kind that is
//     not served yet becomes served.
//   - A source is one list and watch: the objects of a kind in one namespace or in all namespaces,
//     restricted by names, labels and fields. All owners of a source share one watch.
//   - A filter is a compiled jq program that selects the relevant content of an object.
//   - A view is the result of a filter for the objects of a source. A receiver stores one durable
//     cursor per view.
//   - A selection describes the objects that a monitor follows: a kind with optional names,
//     namespaces, labels and fields. A selection consists of any number of sources. They may change
//     when namespaces are created, relabeled or deleted.
//   - A monitor follows one selection through one filter for one owner. Its snapshot is the current
//     set of objects.
//   - Watches run all monitors and deliver changes to a receiver, in batches and in order. They
//     deliver a batch again until the receiver accepts it.
//
// The package does not know what an owner is, or what receivers do with the delivered objects.
package kube
