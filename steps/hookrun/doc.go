// Package hookrun runs hooks. One attempt of its [Step] runs one hook for a node of the lifecycle, with the inputs
// and outputs that the node declares.
package hookrun
