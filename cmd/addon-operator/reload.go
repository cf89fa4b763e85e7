package main

import (
	"context"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// newReload returns the command "reload".
func newReload() *cobra.Command {
	var from sourceFlags
	var allowed uint
	cmd := &cobra.Command{
		Use: "reload", Short: "Scan the module directories and converge now; needs a running operator", Args: args(cobra.NoArgs),
		Long: "Scan the module directories and converge now. If a converge has begun, it restarts at beforeAll, at most three " +
			"times in a row unless one of its steps keeps failing. If no converge restarts, the reload joins a run that has not " +
			"reached beforeAll yet, such as the start run. If there is no such run, the new converge waits behind the tasks in queue " +
			"main. The request is stored, so a restart of the operator does not lose it.",
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		form := reloadForm(allowed)
		form.Set("reason", *reason)
		return request(cmd, &from, "/reload", form)
	}
	cmd.Flags().UintVar(&allowed, "allow-purge", 0, "maximum number of releases this converge may delete without the 50 % safety check")
	from.declare(cmd)
	return cmd
}

func reloadForm(allowed uint) url.Values {
	form := url.Values{}
	if allowed > 0 {
		form.Set("allow-purge", strconv.FormatUint(uint64(allowed), 10))
	}
	return form
}

// reasonFlag declares the optional flag --reason.
func reasonFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("reason", "", "reason, stored in the history with your name")
}

// request posts the form to path, with the name of the user, and prints the response.
func request(cmd *cobra.Command, from *sourceFlags, path string, form url.Values) error {
	return from.with(cmd, func(ctx context.Context, s *source) error {
		form.Set("by", me())
		return s.post(ctx, path, form, cmd.OutOrStdout())
	})
}
