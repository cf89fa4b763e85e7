package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
)

// newStoreCheck returns the command "store check".
func newStoreCheck(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Read the whole store and report its problems", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			from.verify = true
			return from.with(cmd, func(ctx context.Context, s *source) error {
				err := s.get(ctx, "/store/check", nil, cmd.OutOrStdout())
				if answer := (*answerError)(nil); errors.As(err, &answer) && answer.status == debugapi.StatusDamaged {
					return &codedError{exitCorrupt, err}
				}
				return err
			})
		},
	}
}
