// Package steps implements the steps of the lifecycle graph. A step returns facts about its results. The graph
// decides by the facts which step is next.
//
// Start reading at [New]: it creates the parts of all packages below this one. Each of these packages has one
// purpose, and returns the steps of its nodes. [Lifecycle.Implementation] joins the steps with the graph.
package steps
