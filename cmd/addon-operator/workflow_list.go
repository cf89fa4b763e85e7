package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/workflow/inspect"
)

// newWorkflowList returns the verb that shows the newest walks.
func newWorkflowList(from *sourceFlags) *cobra.Command {
	var o output
	var p paint
	var limit uint
	cmd := &cobra.Command{Use: "list", Short: "Show the newest walks", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "json", "yaml")
	p.declare(cmd)
	cmd.Flags().UintVarP(&limit, "limit", "n", shownWalks, "how many walks to show")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{"limit": {strconv.FormatUint(uint64(limit), 10)}}
		if o.format != "text" {
			return show(cmd, from, &o, "/workflow/list", query)
		}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			var body bytes.Buffer
			if err := s.get(ctx, "/workflow/list.json", query, &body); err != nil {
				return err
			}
			var walks []inspect.Summary
			if err := json.Unmarshal(body.Bytes(), &walks); err != nil {
				return err
			}
			l := p.look(cmd.OutOrStdout())
			l.Now = time.Now()
			_, err := io.WriteString(cmd.OutOrStdout(), inspect.ListText(walks, l))
			return err
		})
	}
	return cmd
}
