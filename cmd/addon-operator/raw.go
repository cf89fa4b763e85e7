package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// newRaw returns the command "raw".
func newRaw() *cobra.Command {
	var from sourceFlags
	cmd := &cobra.Command{
		Use: "raw PATH", Short: "Print the response of a route of the debug socket, such as /queue/list.json", Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, argv []string) error {
			path, query, _ := strings.Cut("/"+strings.TrimPrefix(argv[0], "/"), "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				return &codedError{exitUsage, err}
			}
			if from.showSecrets {
				values.Set("show-secrets", "true")
			}
			return from.with(cmd, func(ctx context.Context, s *source) error { return s.get(ctx, path, values, cmd.OutOrStdout()) })
		},
	}
	from.declare(cmd)
	return cmd
}
