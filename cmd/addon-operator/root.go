package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newRoot returns the command with all its verbs. Without a verb it starts the
// operator.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "addon-operator",
		Short:         "Keep a cluster's addons installed and configured",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, given []string) error {
			if len(given) > 0 {
				return &codedError{exitUsage, fmt.Errorf("there is no command %q; see addon-operator --help", given[0])}
			}
			return nil
		},
	}
	root.SetGlobalNormalizationFunc(byAlias)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &codedError{exitUsage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	start := newStart()
	root.RunE = start.RunE
	root.Flags().AddFlagSet(start.Flags())
	root.AddCommand(
		start, newVersion(), newRaw(), newReload(),
		newGroup("workflow", "See what happened, happens and waits", newWorkflowInspect, newWorkflowList, newWorkflowGraph),
		newGroup("queue", "See what waits and runs", newQueueList, newQueueMain),
		newGroup("task", "Retry, skip, cancel or release a task", newTaskCancel, newTaskRelease, newTaskRetry, newTaskSkip),
		newGroup("module", "See modules and their values", newModuleList, newModuleValues, newModuleConfig, newModulePatches, newModuleSnapshots, newModuleRender, newModuleMonitor, newModuleRun),
		newGroup("global", "See global hooks and values", newGlobalList, newGlobalValues, newGlobalConfig, newGlobalPatches, newGlobalSnapshots),
		newGroup("hook", "See hooks and what they see", newHookList, newHookSnapshot),
		newGroup("config", "See and set how the running operator logs", newConfigList, newConfigSet),
		newGroup("store", "Check, compact, print or copy the store", newStoreCheck, newStoreCompact, newStoreDump, newStoreSnapshot),
	)
	return root
}
