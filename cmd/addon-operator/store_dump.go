package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
)

// newStoreDump returns the command "store dump".
func newStoreDump(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "dump [TABLE...]", Short: "Print the records of the store as JSON, one per line",
		Long: "Print the records of the store as JSON, one per line. Without a table, all are printed: " + debugapi.TableNames() + ". " +
			"For records that can have secrets, only the size is printed, unless --show-secrets is given.",
		ValidArgs: debugapi.TableList(),
		RunE: func(cmd *cobra.Command, tables []string) error {
			query := url.Values{"table": tables}
			if from.showSecrets {
				query.Set("show-secrets", "true")
			}
			from.verify = true
			return from.with(cmd, func(ctx context.Context, s *source) error {
				return s.get(ctx, "/store/dump", query, cmd.OutOrStdout())
			})
		},
	}
}
