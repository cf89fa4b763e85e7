//go:build !failpoint

package workflow

import "addon-operator/workflow/graph"

// failpoint does nothing: only programs built for crash tests, with the tag
// failpoint, can be killed here.
func failpoint(graph.NodeID, string) {}
