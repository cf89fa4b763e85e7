// Package steps implements the steps of the lifecycle graph. A step reports what it found and did;
// it does not know which step follows.
//
// [Lifecycle] joins the nodes of the graph with their steps. The steps share components, each with one
// invariant in its comment, in the packages below this one. Package desired has the modules on disk,
// their values and flags, and the ConfigMap. Package hooks has the configurations of hooks, package
// hookrun the step that runs one hook for a node, and package releases the steps of Helm releases. The
// other steps are here: they discover, run and delete modules, and read the ConfigMap. A step has only
// the components that it uses.
package steps
