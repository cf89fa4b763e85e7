package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/store"
)

// newStoreCompact returns the command "store compact". The command replaces the store file of a
// stopped operator by a file without free space.
func newStoreCompact(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Release the free space in the store of a stopped operator", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from.store == "" {
				return &codedError{exitUsage, errors.New("name the store of a stopped operator with --store FILE; a running operator compacts its store when it starts, if most of it is free")}
			}
			c, err := store.Compact(from.store, store.Options{Clock: time.Now})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, %d before\n", from.store, c.After, c.Before)
			return err
		},
	}
}
