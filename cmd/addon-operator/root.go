package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/cmd/addon-operator/settings"
)

// newRoot returns the command "addon-operator" with all its subcommands. Without a subcommand, the
// command starts the operator.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "addon-operator",
		Short: "Keep a cluster's addons installed and configured",
		Long: "Keep a cluster's addons installed and configured.\n\n" +
			"Without a command, the operator starts, as with the command start. For its flags, see addon-operator start --help",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, argv []string) error {
			if len(argv) > 0 {
				return &codedError{exitUsage, fmt.Errorf("there is no command %q; see addon-operator --help", argv[0])}
			}
			return nil
		},
	}
	root.SetGlobalNormalizationFunc(settings.ByAlias)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &codedError{exitUsage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.SetHelpFunc(showHelp)
	bare := newStart() // if no subcommand is given, the flags of start are accepted, but hidden in the help
	root.RunE = bare.RunE
	root.Flags().AddFlagSet(bare.Flags())
	root.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	root.AddCommand(
		newStart(), newStatus(), newDiagnose(), newTimeline(), newVersion(), newWhy(), newLogs(), newPlan(), newRaw(), newReload(), newTest(), newSupervisedStart(),
		newGroup("workflow", "Show runs and their steps", newWorkflowInspect, newWorkflowList, newWorkflowGraph),
		newGroup("queue", "Show the tasks in queues", newQueueList, newQueueMain, newQueueShow),
		newGroup("task", "Retry, skip, cancel or release a task", newTaskCancel, newTaskRelease, newTaskRetry, newTaskSkip),
		newPause(), newResume(),
		newGroup("module", "Show modules and their values; run a module", newModuleList, newModuleValues, newModuleConfig, newModulePatches, newModuleSnapshots, newModuleRender, newModuleMonitor, newModuleRun),
		newGroup("global", "Show global hooks and values", newGlobalList, newGlobalValues, newGlobalConfig, newGlobalPatches, newGlobalSnapshots),
		newGroup("values", "Show where values come from and what changed them", newValuesDiff, newValuesExplain),
		newGroup("hook", "Show hooks and their snapshots; run a hook", newHookList, newHookSnapshot, newHookRun),
		newGroup("addons", "Show registered addons; check, index and pack addons for a repository",
			newAddonsGet, newAddonsIndex, newAddonsLint, newAddonsList, newAddonsPackage, newAddonsWhy),
		newGroup("config", "Show and change settings of the running operator, such as its log level", newConfigList, newConfigSet),
		newGroup("webhooks", "Withdraw the webhook configurations of the operator", newWebhooksWithdraw),
		newGroup("store", "Check, compact, print, copy or restore the store", newStoreCheck, newStoreCompact, newStoreDump, newStoreRestore, newStoreSnapshot),
	)
	return root
}
