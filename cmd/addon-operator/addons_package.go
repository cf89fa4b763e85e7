package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"addon-operator/internal/catalog/author"
)

// newAddonsPackage returns the verb that packs a directory of addons.
func newAddonsPackage(*sourceFlags) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "package DIR",
		Short: "Pack each addon directory of a directory to NAME-VERSION.tgz; stops at an invalid addon",
		Long: "Pack each addon directory of a directory to NAME-VERSION.tgz; stops at an invalid addon.\n\n" +
			"Equal files give equal archives, byte by byte.",
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
		names, err := repository.Package(to)
		for _, name := range names {
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(to, name)) // a broken pipe is no reason to stop
		}
		return err
	}
	return cmd
}
