// Package steps implements the steps of the lifecycle graph. A step reports what it found and did; it does not know
// which step follows.
//
// [Lifecycle] joins the nodes of the graph with their steps. The steps share parts, each with one invariant that its
// comment states: [Modules] on disk, [AddonModules], [Values] and flags, the [ConfigMap], [Hooks], [Bindings],
// [Releases] and [Webhooks]. Package hookmetrics keeps the metrics that hooks report, and package objects carries out
// their object operations. A step has only the parts that it uses. A hookStep runs one hook for a node, as the inputs
// and outputs of the node say; the other steps are named for their nodes.
package steps
