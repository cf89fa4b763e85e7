package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/crashtest"
	"addon-operator/cmd/addon-operator/settings"
)

// newSupervisedStart returns the hidden command with which the command "test" starts the operator.
func newSupervisedStart() *cobra.Command {
	var s settings.Settings
	cmd := &cobra.Command{Use: crashtest.StartCommand, Hidden: true, Args: cobra.NoArgs}
	read := settings.Declare(&s, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		control, err := crashtest.OpenControl()
		if err != nil {
			return &codedError{exitUsage, err}
		}
		if err := read(); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		return run(cmd.Context(), s, cmd.ErrOrStderr(), control)
	}
	return cmd
}
