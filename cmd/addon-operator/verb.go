package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newGroup returns a command that only holds verbs, all of which ask a source.
func newGroup(name, about string, verbs ...func(*sourceFlags) *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: about, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &codedError{exitUsage, fmt.Errorf("there is no %s; see %s --help", cmd.CommandPath()+" "+args[0], cmd.CommandPath())}
			}
			return cmd.Help()
		},
	}
	var from sourceFlags
	from.declare(cmd)
	for _, verb := range verbs {
		cmd.AddCommand(verb(&from))
	}
	return cmd
}

// args wraps a check of arguments so that its error is one of usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return &codedError{exitUsage, fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// output is the flag -o.
type output struct {
	format string
	can    []string
}

// declare declares -o with the formats that can be asked for, the first of which
// is the default.
func (o *output) declare(cmd *cobra.Command, formats ...string) {
	o.can = formats
	cmd.Flags().StringVarP(&o.format, "output", "o", formats[0], "format: "+strings.Join(formats, ", "))
}

func (o *output) check() error {
	if !slices.Contains(o.can, o.format) {
		return &codedError{exitUsage, fmt.Errorf("--output is %q; it can be %s", o.format, strings.Join(o.can, ", "))}
	}
	return nil
}

// show gets path in the format of o and prints it. Of a store in a file it says
// on stderr which, and how old it is.
func show(cmd *cobra.Command, from *sourceFlags, o *output, path string, query url.Values) error {
	if err := o.check(); err != nil {
		return err
	}
	if query == nil {
		query = url.Values{}
	}
	if from.showSecrets {
		query.Set("show-secrets", "true")
	}
	return from.with(cmd, func(ctx context.Context, s *source) error {
		var page bytes.Buffer
		if err := s.get(ctx, path+"."+o.format, query, &page); err != nil {
			return err
		}
		_, err := page.WriteTo(cmd.OutOrStdout())
		return err
	})
}

// with opens the source for do.
func (f *sourceFlags) with(cmd *cobra.Command, do func(context.Context, *source) error) error {
	s, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	defer s.close() //nolint:errcheck // it was only read
	if !s.live {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "#", s.about)
	}
	return do(cmd.Context(), s)
}
