package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// newModuleRender returns the command "module render".
func newModuleRender(from *sourceFlags) *cobra.Command {
	var debug, changes bool
	cmd := &cobra.Command{
		Use: "render MODULE", Short: "Show the rendered chart of a module; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listModules),
		RunE: func(cmd *cobra.Command, argv []string) error {
			query := url.Values{}
			for name, set := range map[string]bool{"debug": debug, "diff": changes, "show-secrets": from.showSecrets} {
				if set {
					query.Set(name, "true")
				}
			}
			return from.with(cmd, func(ctx context.Context, s *source) error {
				return s.get(ctx, "/module/"+url.PathEscape(argv[0])+"/render", query, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVar(&debug, "debug", false, "show the output of templates even if it is not a valid manifest")
	cmd.Flags().BoolVar(&changes, "diff", false, "show the difference to the release")
	return cmd
}
