// Package steps implements the steps of the lifecycle graph. A step returns facts about its results. The graph
// decides by the facts which step is next.
//
// Start reading at [New], which creates the parts of the lifecycle. Each package below this one has one purpose.
// [Lifecycle.Implementation] joins the steps of these packages with the graph. Package addons, which implements another
// graph, is not part of the lifecycle.
package steps
