// Package kube connects to a cluster, watches its objects and reads and writes the operator's ConfigMap.
//
// Its nouns, from the wire upward:
//
//   - A client is one set of connections to one API server, shared by all who talk to it.
//   - A kind is a kind of objects the API server serves now. One that is not served may appear later; [Kinds] tells when.
//   - A source is what one list and one watch can tell of: the objects of a kind in one namespace or all, narrowed by
//     names, labels and fields. However many ask for it, it is watched once.
//   - A filter is a compiled jq program that says what matters about an object.
//   - A view is a source seen through a filter. What has been told of a view is what a durable cursor is kept of.
//   - A selection is what a monitor follows: a kind, and the names, namespaces, labels and fields that are asked for. It
//     comes down to one or more sources, and which they are may change while namespaces come and go.
//   - A monitor follows one selection through one filter for one owner. Its snapshot is what it sees now.
//   - Watches run all monitors, and deliver changes to a receiver: in order, in batches, and again until the receiver has
//     kept it.
//
// Nothing here knows what an owner is, or what it does with what it is told.
package kube
