package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
	"addon-operator/workflow/inspect"
)

// A bundlePage is a page of the debug API in a support archive.
type bundlePage struct {
	name  string // name of the files of the page in the archive, without a suffix
	path  string
	query url.Values
	// text renders the page as text; nil if the archive has the page only as JSON.
	text func(page []byte, layout inspect.Layout) (string, error)
}

// rendered returns a function that decodes a page of type T and renders the page with the function text.
func rendered[T any](text func(*T, inspect.Layout) string) func([]byte, inspect.Layout) (string, error) {
	return func(page []byte, layout inspect.Layout) (string, error) {
		v := new(T)
		if err := json.Unmarshal(page, v); err != nil {
			return "", err
		}
		return text(v, layout), nil
	}
}

// bundlePages are the pages in an archive. The pages contain no snapshots, and no values except
// changes of values. The pages contain the output of hooks, and errors that quote this output.
var bundlePages = []bundlePage{
	{name: "diagnosis", path: "/diagnosis", text: rendered(inspect.DiagnosisText)},
	{name: "status", path: "/status", text: rendered(inspect.StatusText)},
	{name: "run", path: "/workflow/inspect", text: rendered(inspect.Text)},
	{name: "runs", path: "/workflow/list", query: url.Values{"limit": {"200"}}, text: rendered(runListText)},
	{name: "timeline", path: "/workflow/timeline", query: url.Values{"limit": {"2000"}}, text: rendered(inspect.TimelineText)},
	{name: "logs", path: "/workflow/logs", query: url.Values{"limit": {"200"}}},
	{name: "queues", path: "/queue/list", text: rendered((*debugapi.QueueList).Text)},
	{name: "modules", path: "/module/list"},
	{name: "hooks", path: "/hook/list"},
	{name: "addons", path: "/addons/list"},
	{name: "settings", path: "/config/list"},
}

// writeBundle writes a support archive to the file called name, which must not exist, or to stdout
// if name is "-". If the archive cannot be written, writeBundle removes the file.
func writeBundle(cmd *cobra.Command, from *sourceFlags, name string) error {
	if from.showSecrets {
		return &codedError{exitUsage, errors.New("--bundle leaves secrets out: remove --show-secrets")}
	}
	from.verify = true
	if name == "-" {
		return from.with(cmd, func(ctx context.Context, s *source) error { return s.bundle(ctx, cmd.OutOrStdout(), from) })
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return &codedError{exitUsage, fmt.Errorf("--bundle: %w", err)}
	}
	err = from.with(cmd, func(ctx context.Context, s *source) error { return s.bundle(ctx, file, from) })
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has the diagnosis, the status, runs, the timeline, the output of hooks, queues, modules, hooks, addons and settings.\n"+
		"It contains no snapshots, and of the values only the changes. Texts that look like secrets are left out. Read it before you pass it on.\n", name)
	return err
}

// bundle writes an archive with the bundlePages to w. The file errors.txt in the archive lists the
// pages that could not be read or rendered.
func (s *source) bundle(ctx context.Context, w io.Writer, from *sourceFlags) error {
	packed := gzip.NewWriter(w)
	b := &bundle{out: tar.NewWriter(packed), at: time.Now()}
	layout := inspect.Layout{Now: b.at, Program: "addon-operator", Wide: true, Zone: from.zone(), ASCII: true}
	b.add("about.txt", fmt.Appendf(nil, "%s\naddon-operator %s wrote this at %s\n", s.about, version, b.at.UTC().Format(time.RFC3339)))
	var failed strings.Builder
	for i := range bundlePages {
		if err := b.page(ctx, s, &bundlePages[i], layout); err != nil {
			fmt.Fprintf(&failed, "%s: %v\n", bundlePages[i].name, err)
		}
	}
	if failed.Len() > 0 {
		b.add("errors.txt", []byte(redact.Text(failed.String())))
	}
	return cmp.Or(b.err, errors.Join(b.out.Close(), packed.Close()))
}

// A bundle writes the files of a support archive.
type bundle struct {
	out *tar.Writer
	at  time.Time
	err error // the first write error
}

// add adds a file to the archive. add does nothing after a write error.
func (b *bundle) add(name string, text []byte) {
	if b.err != nil {
		return
	}
	b.err = b.out.WriteHeader(&tar.Header{Name: path.Join("addon-operator", name), Mode: 0o600, Size: int64(len(text)), ModTime: b.at})
	if b.err == nil {
		_, b.err = b.out.Write(text)
	}
}

// page adds the files of a page to the archive. page returns an error if the page could not be
// read or rendered.
func (b *bundle) page(ctx context.Context, s *source, p *bundlePage, layout inspect.Layout) error {
	var body bytes.Buffer
	if err := s.get(ctx, p.path+".json", p.query, &body); err != nil {
		return err
	}
	page, err := redacted(body.Bytes())
	if err != nil {
		return err
	}
	b.add(p.name+".json", page)
	if p.text == nil {
		return nil
	}
	text, err := p.text(page, layout)
	if err == nil {
		b.add(p.name+".txt", []byte(text))
	}
	return err
}

// redacted returns the JSON document with likely secrets masked: parts of strings that look like
// secrets, and whole strings whose key is usual for a secret.
func redacted(document []byte) ([]byte, error) {
	v, err := tree.Decode(document)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(redactedStrings(v), "", "  ")
}

func redactedStrings(v any) any {
	switch v := v.(type) {
	case string:
		return redact.Text(v)
	case []any:
		for i := range v {
			v[i] = redactedStrings(v[i])
		}
	case map[string]any:
		for key := range v {
			if _, isText := v[key].(string); isText && redact.Secret(key) {
				v[key] = redact.Mark
				continue
			}
			v[key] = redactedStrings(v[key])
		}
	}
	return v
}
