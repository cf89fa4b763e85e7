package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"addon-operator/internal/catalog/author"
	"addon-operator/internal/text"
)

// newAddonsIndex returns the command "addons index".
func newAddonsIndex(*sourceFlags) *cobra.Command {
	return newAuthorVerb("index", "Write the index.yaml of the addons of a directory; writes nothing if an addon is invalid",
		"The index lists the addons by name, and the versions of a name from the newest to the oldest.",
		func(repository *author.Repository, to string, out io.Writer) error {
			entries, err := repository.WriteIndex(to)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s: %s\n", filepath.Join(to, "index.yaml"), text.Count(entries, "entry", "entries"))
			return err
		})
}

// newAuthorVerb returns a command that reads the addons of a directory, and writes files to the same
// or to another directory.
func newAuthorVerb(name, short, more string, write func(from *author.Repository, to string, out io.Writer) error) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:               name + " DIR",
		Short:             short,
		Long:              short + ".\n\n" + more,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeDir,
	}
	cmd.Flags().StringVarP(&to, "destination", "d", "", "directory to write to; DIR if empty")
	_ = cmd.MarkFlagDirname("destination") // the flag is declared
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		repository, err := author.Open(cmd.Context(), argv[0])
		if err != nil {
			return err
		}
		defer repository.Close()
		return write(repository, cmp.Or(to, argv[0]), cmd.OutOrStdout())
	}
	return cmd
}
