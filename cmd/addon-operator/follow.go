package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"addon-operator/workflow/inspect"
)

// follow has the value of the flag --follow. With this flag, a command prints new entries of the
// history when they are committed.
type follow struct{ on bool }

func (f *follow) declare(cmd *cobra.Command, about string) {
	cmd.Flags().BoolVarP(&f.on, "follow", "f", false, about)
}

// show prints the entries that the route at path streams, until Ctrl-C or the end of the operator.
// In JSON, each entry is one line. In YAML, each entry is a document. In the other formats, show
// prints the result of text. If the source is the store of a stopped operator, show prints only the
// existing entries.
func (f *follow) show(cmd *cobra.Command, t *table[inspect.Timeline], path string, query url.Values, text func(*inspect.Entry, inspect.Layout) string) error {
	if err := t.output.check(); err != nil {
		return err
	}
	if t.from.showSecrets {
		query.Set("show-secrets", "true")
	}
	return t.from.with(cmd, func(ctx context.Context, s *source) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		entries, ended := stream[inspect.Entry](ctx, s, path, query)
		for entry := range entries {
			body, err := followed(cmd, t, entry, text)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(body)
			}
			if err != nil {
				return err
			}
		}
		if err := <-ended; err != nil && cmd.Context().Err() == nil {
			return err
		}
		if s.live && cmd.Context().Err() == nil {
			return fmt.Errorf("%s has ended; its store can be read with --store FILE", s.about)
		}
		return nil
	})
}

// followed returns an entry in the requested format.
func followed(cmd *cobra.Command, t *table[inspect.Timeline], entry *inspect.Entry, text func(*inspect.Entry, inspect.Layout) string) ([]byte, error) {
	switch t.output.format {
	case "json":
		body, err := json.Marshal(entry)
		return append(body, '\n'), err
	case "yaml":
		body, err := yaml.Marshal(entry)
		return append([]byte("---\n"), body...), err
	}
	layout := t.paint.layout(cmd.OutOrStdout(), t.from.zone())
	layout.Now, layout.Wide = time.Now(), t.output.format == "wide"
	layout.Program, layout.More = os.Args[0], t.from.repeated()
	return []byte(text(entry, layout)), nil
}
