package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"addon-operator/internal/catalog/author"
)

// newAddonsIndex returns the verb that writes the index of a directory of addons.
func newAddonsIndex(*sourceFlags) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "index DIR",
		Short: "Write the index.yaml of the addons of a directory; stops at an invalid addon",
		Long: "Write the index.yaml of the addons of a directory; stops at an invalid addon.\n\n" +
			"The index lists the addons by name, and the versions of a name from the newest to the oldest.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeDir,
	}
	declareDestination(cmd, &to)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if to == "" {
			to = given[0]
		}
		repository, err := author.Open(cmd.Context(), given[0])
		if err != nil {
			return err
		}
		defer repository.Close()
		entries, err := repository.WriteIndex(to)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d entries\n", filepath.Join(to, "index.yaml"), entries)
		return err
	}
	return cmd
}

// declareDestination declares the flag for the directory to write to.
func declareDestination(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "destination", "d", "", "directory to write to; DIR if empty")
	_ = cmd.MarkFlagDirname("destination") // it is declared
}
