package main

import "github.com/spf13/cobra"

// newVersion returns the verb that prints the version.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write([]byte("addon-operator " + version + "\n"))
			return err
		},
	}
}
