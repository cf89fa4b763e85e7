package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// newReload returns the verb that requests a converge.
func newReload() *cobra.Command {
	var from sourceFlags
	cmd := &cobra.Command{
		Use: "reload", Short: "Scan the module directories and converge now; of a running operator", Args: args(cobra.NoArgs),
		Long: "Scan the module directories and converge now. A converge under way restarts at beforeAll. " +
			"The request is kept in the store: a restart of the operator does not lose it.",
		RunE: func(cmd *cobra.Command, _ []string) error { return request(cmd, &from, "/reload") },
	}
	from.declare(cmd)
	return cmd
}

// request posts to path in the name of the user and prints the answer.
func request(cmd *cobra.Command, from *sourceFlags, path string) error {
	return from.with(cmd, func(ctx context.Context, s *source) error {
		return s.post(ctx, path, url.Values{"by": {me()}}, cmd.OutOrStdout())
	})
}
