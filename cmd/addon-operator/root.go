package main

import (
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
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &codedError{exitUsage, err} })
	start := newStart()
	root.RunE = start.RunE
	root.Args = cobra.NoArgs
	root.Flags().AddFlagSet(start.Flags())
	root.AddCommand(start, newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Println("addon-operator", version)
			return nil
		},
	}
}
