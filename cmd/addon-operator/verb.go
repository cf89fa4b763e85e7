package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/workflow/inspect"
)

// newGroup returns a command that only has subcommands. The subcommands share the flags that select
// a source.
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

// args wraps a check of arguments so that its error has the exit code for wrong usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, argv []string) error {
		if err := check(cmd, argv); err != nil {
			return &codedError{exitUsage, fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// output is the value of the flag -o.
type output struct {
	format string
	can    []string
}

// declare declares the flag -o with the accepted formats. The first format is the default.
func (o *output) declare(cmd *cobra.Command, formats ...string) {
	o.can = formats
	about := "format: " + strings.Join(formats, ", ")
	if slices.Contains(formats, "wide") {
		about += "; wide truncates nothing"
	}
	cmd.Flags().StringVarP(&o.format, "output", "o", formats[0], about)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // fails only if the flag is not declared
}

func (o *output) check() error {
	if !slices.Contains(o.can, o.format) {
		return &codedError{exitUsage, fmt.Errorf("--output must be one of %s (got %q)", strings.Join(o.can, ", "), o.format)}
	}
	return nil
}

// isText reports whether the format is text or wide.
func (o *output) isText() bool { return o.format == "text" || o.format == "wide" }

// show requests path from the source and prints the response in the format of o.
func show(cmd *cobra.Command, from *sourceFlags, o *output, path string, query url.Values) error {
	body, err := fetch(cmd, from, o, path, query)
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	return err
}

// fetch requests path from the source and returns the response in the format of o.
func fetch(cmd *cobra.Command, from *sourceFlags, o *output, path string, query url.Values) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if query == nil {
		query = url.Values{}
	}
	if from.showSecrets {
		query.Set("show-secrets", "true")
	}
	var page bytes.Buffer
	err := from.with(cmd, func(ctx context.Context, s *source) error { return s.get(ctx, path+"."+o.format, query, &page) })
	return page.Bytes(), err
}

// A table is a command that itself renders the data of a response as text, for the width of the
// terminal. In the formats json and yaml, the command prints the response.
type table[T any] struct {
	from   *sourceFlags
	output output
	paint  paint
	text   func(*T, inspect.Layout) string
}

// declare declares the flags of a table.
func (t *table[T]) declare(cmd *cobra.Command) {
	t.output.declare(cmd, "text", "wide", "json", "yaml")
	t.paint.declare(cmd)
}

// show requests path and prints the response as the flags of the table say.
func (t *table[T]) show(cmd *cobra.Command, path string, query url.Values) error {
	body, err := t.fetch(cmd, path, query)
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	return err
}

// fetch requests path and returns the response as the flags of the table say.
func (t *table[T]) fetch(cmd *cobra.Command, path string, query url.Values) ([]byte, error) {
	if err := t.output.check(); err != nil || !t.output.isText() {
		return fetch(cmd, t.from, &t.output, path, query)
	}
	data, _, err := t.read(cmd, path, query)
	if err != nil {
		return nil, err
	}
	return t.page(cmd, data), nil
}

// read requests path and returns the response, decoded and as JSON.
func (t *table[T]) read(cmd *cobra.Command, path string, query url.Values) (data *T, body []byte, err error) {
	if body, err = fetch(cmd, t.from, &output{format: "json", can: []string{"json"}}, path, query); err != nil {
		return nil, nil, err
	}
	data = new(T)
	if err := json.Unmarshal(body, data); err != nil {
		return nil, nil, fmt.Errorf("read the answer to %s: %w", path, err)
	}
	return data, body, nil
}

// page renders data as text for the terminal or the file to which cmd prints.
func (t *table[T]) page(cmd *cobra.Command, data *T) []byte {
	layout := t.paint.layout(cmd.OutOrStdout(), t.from.zone())
	layout.Now, layout.Wide = time.Now(), t.output.format == "wide"
	layout.Program, layout.More = os.Args[0], t.from.repeated()
	return []byte(t.text(data, layout))
}

// with opens the source, calls the function do with it, and closes it. If the source is a store file,
// with first prints the name and the age of the file on stderr. If do found damage in the file, the
// result is the error of the damage.
func (f *sourceFlags) with(cmd *cobra.Command, do func(context.Context, *source) error) error {
	s, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { go s.close() }() //nolint:errcheck // an error does not matter, because the source was only read; closed in the background, because closing a large store can take longer than printing
	if !s.live {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "#", s.about)
	}
	err = do(cmd.Context(), s)
	return cmp.Or(s.damage(), err)
}
