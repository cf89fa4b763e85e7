// Package steps implements the steps of the lifecycle graph. A step returns facts about its results. It does not know
// which step follows.
//
// Start reading at [New]: it creates the parts of all packages below this one. Each of these packages has one purpose
// and contributes the steps of its nodes. [Lifecycle.Binding] joins the steps with the graph.
package steps
