// Package kube connects to a cluster, watches its objects and reads and writes the operator's
// ConfigMap.
//
// Its terms, from the connection upward:
//
//   - A client is one set of connections to one API server, shared by all its users.
//   - A kind is an object kind that the API server serves now. A kind that is not served may appear
//     later; [Kinds] reports when.
//   - A source is one list and watch: the objects of a kind in one namespace or all, restricted by
//     names, labels and fields. It is watched once, however many owners use it.
//   - A filter is a compiled jq program that selects the relevant content of an object.
//   - A view is a source seen through a filter. A receiver keeps one durable cursor per view.
//   - A selection is what a monitor follows: a kind with optional names, namespaces, labels and
//     fields. It consists of one or more sources, which may change when namespaces come and go.
//   - A monitor follows one selection through one filter for one owner. Its snapshot is the current
//     set of objects.
//   - Watches run all monitors and deliver changes to a receiver, in batches and in order. They repeat
//     a batch until the receiver accepts it.
//
// The package does not depend on the meaning of an owner or on the use of the delivered objects.
package kube
