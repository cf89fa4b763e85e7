// Package steps is the doing of the lifecycle's nodes, one file a group. A step
// knows its crafts and the store; it does not know what comes after it.
//
// Its nouns: the Site is what all steps share, the crafts and the modules as
// last scanned; a hookStep runs one hook for a node, as the node's inputs and
// outputs say; the other steps are named for their nodes.
package steps
