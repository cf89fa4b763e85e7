package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/settings"
)

// newStart returns the command "start".
func newStart() *cobra.Command {
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run the operator",
		Args:  cobra.NoArgs,
	}
	read := settings.Declare(&s, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := read(); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		return Run(cmd.Context(), s, cmd.ErrOrStderr())
	}
	return cmd
}
