package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"addon-operator/workflow/draw"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// shownOfError is how many columns of an error are shown at a node.
const shownOfError = 60

// newWorkflowGraph returns the verb that draws the lifecycle.
func newWorkflowGraph(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:               "graph [WALK]",
		Short:             "Draw the graph of the lifecycle, with the states of a walk if one is given",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: from.complete(listRuns),
	}
	o.declare(cmd, "text", "mermaid", "dot")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if len(given) == 0 {
			return o.draw(cmd.OutOrStdout(), nil)
		}
		query, err := walkQuery(given)
		if err != nil {
			return err
		}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			walk, err := getWalk(ctx, s, query)
			if err != nil {
				return err
			}
			most := shownOfError
			if o.isText() && !isTerminal(cmd.OutOrStdout()) {
				most = inspect.Unlimited
			}
			return o.draw(cmd.OutOrStdout(), inspect.States(walk, most))
		})
	}
	return cmd
}

// draw draws the lifecycle in the format of o.
func (o *output) draw(w io.Writer, states draw.States) error {
	drawing := draw.Text
	switch o.format {
	case "mermaid":
		drawing = draw.Mermaid
	case "dot":
		drawing = draw.DOT
	}
	_, err := io.WriteString(w, drawing(lifecycle.Graph, states))
	return err
}
