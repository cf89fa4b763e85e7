package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// shownOfError is the maximum number of columns of an error in the drawing of a node.
const shownOfError = 60

// graphNamed returns the graph with this name.
func graphNamed(name string) (*graph.Graph, error) {
	var names []string
	for _, g := range debugapi.Graphs {
		if g.Name == name {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return nil, &codedError{exitUsage, fmt.Errorf("there is no graph %q; the graphs are %s", name, strings.Join(names, " and "))}
}

// newWorkflowGraph returns the command "workflow graph".
func newWorkflowGraph(from *sourceFlags) *cobra.Command {
	var o output
	var name string
	cmd := &cobra.Command{
		Use:               "graph [RUN]",
		Short:             "Draw a graph, with the states of a run if one is given",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: from.complete(listRuns),
	}
	o.declare(cmd, "text", "mermaid", "dot")
	cmd.Flags().StringVar(&name, "graph", debugapi.Graphs[0].Name, "graph to draw: lifecycle or addons; cannot be used with a run")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if len(argv) == 0 {
			g, err := graphNamed(name)
			if err != nil {
				return err
			}
			return o.draw(cmd.OutOrStdout(), g, nil)
		}
		if cmd.Flags().Changed("graph") {
			return &codedError{exitUsage, errors.New("--graph cannot be used with a run: a run is drawn in its own graph")}
		}
		query, err := runQuery(argv)
		if err != nil {
			return err
		}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			run, err := getRun(ctx, s, query)
			if err != nil {
				return err
			}
			most := shownOfError
			if o.isText() && !isTerminal(cmd.OutOrStdout()) {
				most = inspect.Unlimited
			}
			g, err := graphNamed(run.Graph)
			if err != nil {
				return err
			}
			return o.draw(cmd.OutOrStdout(), g, inspect.States(run, most))
		})
	}
	return cmd
}

// draw writes a drawing of the graph g to w, in the format of the flag -o. The argument
// states has the states of a run; nil to draw only the graph.
func (o *output) draw(w io.Writer, g *graph.Graph, states draw.States) error {
	drawing := draw.Text
	switch o.format {
	case "mermaid":
		drawing = draw.Mermaid
	case "dot":
		drawing = draw.DOT
	}
	_, err := io.WriteString(w, drawing(g, states))
	return err
}
