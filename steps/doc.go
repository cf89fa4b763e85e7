// Package steps implements the nodes of the lifecycle graph, one file for each group of nodes. A
// step uses internal packages and the store. It does not know which step is next.
//
// Its nouns: the Site is what all steps share, the internal packages and the modules as
// last scanned; a hookStep runs one hook for a node, as the node's inputs and
// outputs say; the other steps are named for their nodes.
package steps
