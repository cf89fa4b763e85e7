package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/catalog/author"
)

// newAddonsLint returns the command "addons lint".
func newAddonsLint(*sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "lint DIR",
		Short: "Check the addons of a directory, and its index.yaml; exits with code 1 if there are problems or errors",
		Long: "Check the addons of a directory, and its index.yaml; exits with code 1 if there are problems or errors.\n\n" +
			"An addon is a directory with meta.yaml, chart/ and plans/, or an archive of one. An addon with a problem\n" +
			"makes its configuration Failed. An addon with an error does not. An error means that helm lint fails with\n" +
			"the values of a plan, or that the create-instance-schema.json of a plan cannot be used. Warnings of helm lint and\n" +
			"missing values are only advice.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeDir,
	}
	o.declare(cmd, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if err := o.check(); err != nil {
			return err
		}
		repository, err := author.Open(cmd.Context(), argv[0])
		if err != nil {
			return err
		}
		defer repository.Close()
		report, err := repository.Lint()
		if err != nil {
			return err
		}
		body := bytes.NewBufferString("")
		if o.isText() {
			body.WriteString(report.Text())
		} else if err := (debugapi.Page{Data: report}).Encode(body, o.format); err != nil {
			return err
		}
		if _, err := body.WriteTo(cmd.OutOrStdout()); err != nil {
			return err
		}
		if failed := report.Failed(); failed > 0 || len(report.IndexProblems) > 0 {
			return &codedError{exitFailed, fmt.Errorf("%s: %d of %d addons have problems or errors, and index.yaml has %d", argv[0], failed, len(report.Addons), len(report.IndexProblems))}
		}
		return nil
	}
	return cmd
}

// completeDir completes the only argument of a command with directories.
func completeDir(_ *cobra.Command, argv []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(argv) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
