// Package steps implements the steps of the lifecycle graph. A step reports what it found and did;
// it does not know which step follows.
//
// [New] is the table of contents: it creates the packages below this one. Each has one purpose, creates its
// own parts, and contributes the steps of its nodes. [Lifecycle.Binding] joins them with the graph.
package steps
