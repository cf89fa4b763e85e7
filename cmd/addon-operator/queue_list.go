package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// newQueueList returns the verb that shows what waits and runs in all queues.
func newQueueList(from *sourceFlags) *cobra.Command {
	var o output
	var empty bool
	var again repeat
	cmd := &cobra.Command{Use: "list", Short: "Show what waits and runs, queue by queue", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "yaml", "json")
	cmd.Flags().BoolVarP(&empty, "show-empty", "e", false, "show queues that hold no task")
	again.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if empty {
			query.Set("showEmpty", "true")
		}
		return again.do(cmd, func() error { return show(cmd, from, &o, "/queue/list", query) })
	}
	return cmd
}

// repeat is the flag --watch: the verb is done again and again.
type repeat struct {
	watch bool
	every time.Duration
}

func (r *repeat) declare(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&r.watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	cmd.Flags().DurationVarP(&r.every, "watchInterval", "t", time.Second, "time between")
}

func (r *repeat) do(cmd *cobra.Command, once func() error) error {
	if !r.watch {
		return once()
	}
	if r.every < 100*time.Millisecond {
		return &codedError{exitUsage, fmt.Errorf("--watchInterval is %s; it has to be 100ms at least", r.every)}
	}
	clear := ""
	if f, ok := cmd.OutOrStdout().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		clear = "\x1b[H\x1b[2J" // to the top left, and wipe
	}
	for {
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", clear, time.Now().Format(time.TimeOnly))
		if err := once(); err != nil {
			return err
		}
		if !sleep(cmd.Context(), r.every) {
			return nil
		}
	}
}

// sleep waits and reports whether ctx still runs.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
