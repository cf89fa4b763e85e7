// Package hookrun runs hooks: a step runs one hook for a node of the lifecycle, with the inputs and
// outputs of the node.
package hookrun
