// Package steps implements the steps of the lifecycle graph. A step reports what it found and did;
// it does not know which step follows.
//
// [Lifecycle] joins the nodes of the graph with their steps. The steps share components, each with
// one invariant in its comment. Package desired has the modules on disk, their values and flags, and
// the ConfigMap; package bindings has the attached bindings of hooks, package hookmetrics the metrics
// that hooks report, and package objects executes their object operations. [Hooks], [Releases] and
// [Webhooks] are here. A step has only the components that it uses. A hookStep runs one hook for a
// node, with the inputs and outputs of the node. The other steps are named after their nodes.
package steps
