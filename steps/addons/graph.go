package addons

import (
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// Implementation initializes r, and returns the addons graph together with the implementations of its nodes, which
// use r.
func (r *Runtime) Implementation() workflow.Implementation {
	r.fetching, r.parsing = make(chan struct{}, mostFetching), make(chan struct{}, mostParsed)
	r.indexes = newIndexes(r.parsing)
	return workflow.Implementation{Graph: addons.Graph, Steps: map[graph.NodeID]workflow.Step{
		addons.ConfigurationChanged: &changedStep{r},
		addons.FetchRepositories:    &fetchStep{r},
		addons.LintAddons:           &lintStep{r},
		addons.FindDuplicates:       &duplicatesStep{r},
		addons.FindConflicts:        &conflictsStep{r},
		addons.RegisterAddons:       &registerStep{r},
		addons.ConfigurationStatus:  &statusStep{r},
		addons.UnregisterAddons:     &unregisterStep{r},
		addons.ReprocessFailed:      &reprocessStep{r},
		addons.RemoveFinalizer:      &finalizerStep{r},
	}}
}
