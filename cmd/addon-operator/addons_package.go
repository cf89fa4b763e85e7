package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"addon-operator/internal/catalog/author"
)

// newAddonsPackage returns the command "addons package".
func newAddonsPackage(*sourceFlags) *cobra.Command {
	return newAuthorVerb("package", "Pack each addon directory of a directory to NAME-VERSION.tgz; writes nothing if an addon is invalid",
		"Equal files produce identical archives.",
		func(repository *author.Repository, to string, out io.Writer) error {
			names, err := repository.Package(to)
			for _, name := range names {
				_, _ = fmt.Fprintln(out, filepath.Join(to, name)) // the archives are written already: a closed stdout must not fail the command
			}
			return err
		})
}
