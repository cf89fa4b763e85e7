package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newQueueList returns the command "queue list".
func newQueueList(from *sourceFlags) *cobra.Command {
	t, each := newQueueTable((*debugapi.QueueList).Text, from)
	var empty bool
	var again repeat
	cmd := &cobra.Command{Use: "list", Short: "Show the tasks of all queues", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	each.declare(cmd)
	cmd.Flags().BoolVarP(&empty, "show-empty", "e", false, "show empty queues too")
	again.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if empty {
			query.Set("showEmpty", "true")
		}
		return again.show(cmd, from, &t.output, func() ([]byte, error) { return t.fetch(cmd, "/queue/list", query) })
	}
	return cmd
}

// eachEvent has the value of the flag --all, which shows each waiting event on a separate line.
type eachEvent struct{ all bool }

func (e *eachEvent) declare(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&e.all, "all", "a", false, "show each waiting event on a separate line")
}

// newQueueTable returns a table of tasks, and the value of its flag --all, which the caller must
// declare.
func newQueueTable[T any](text func(*T, inspect.Layout) string, from *sourceFlags) (table[T], *eachEvent) {
	each := new(eachEvent)
	return table[T]{from: from, text: func(data *T, layout inspect.Layout) string {
		layout.All = each.all
		return text(data, layout)
	}}, each
}

// repeat has the values of the flags for repeated output.
type repeat struct {
	watch bool
	every time.Duration
}

func (r *repeat) declare(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&r.watch, "watch", "w", false, "repeat the output until Ctrl-C")
	cmd.Flags().DurationVarP(&r.every, "watchInterval", "t", time.Second, "interval between two outputs")
}

// show prints the result of fetch once, or repeatedly with --watch. With --watch, each result in
// JSON is on one line.
func (r *repeat) show(cmd *cobra.Command, from *sourceFlags, o *output, fetch func() ([]byte, error)) error {
	if r.watch && r.every < 100*time.Millisecond {
		return &codedError{exitUsage, fmt.Errorf("--watchInterval must be at least 100ms (got %s)", r.every)}
	}
	for {
		body, err := fetch()
		if err == nil && r.watch {
			body, err = framed(cmd, from, o, body)
		}
		if err == nil {
			_, err = cmd.OutOrStdout().Write(body)
		}
		if err != nil || !r.watch || !sleep(cmd.Context(), r.every) {
			return err
		}
	}
}

// framed returns body in the form for repeated output. Text gets a line with the time, and replaces
// the previous output on a terminal. JSON is on one line, and YAML is a separate document.
func framed(cmd *cobra.Command, from *sourceFlags, o *output, body []byte) ([]byte, error) {
	var out bytes.Buffer
	switch o.format {
	case "json":
		if err := json.Compact(&out, body); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
	case "yaml":
		out.WriteString("---\n")
		out.Write(body)
	default:
		if isTerminal(cmd.OutOrStdout()) {
			out.WriteString("\x1b[H\x1b[2J") // move to the top left and clear the screen
		}
		out.WriteString(time.Now().In(from.zone()).Format(time.TimeOnly) + "\n")
		out.Write(body)
	}
	return out.Bytes(), nil
}

// sleep waits for the duration d and returns true. sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
