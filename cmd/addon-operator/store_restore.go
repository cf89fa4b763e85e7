package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/store"
)

// newStoreRestore returns the command "store restore".
func newStoreRestore(from *sourceFlags) *cobra.Command {
	o := store.RestoreOptions{Options: store.Options{Clock: time.Now}}
	cmd := &cobra.Command{
		Use: "restore SNAPSHOT --store FILE", Short: "Put a snapshot in the place of the store of a stopped operator", Args: args(cobra.ExactArgs(1)),
		DisableFlagsInUseLine: true,
		Long: "Put a snapshot in the place of the store of a stopped operator.\n\n" +
			"The restored store has the values patches, enabled overrides, pauses, cursors, states of modules, ticks, metrics and history\n" +
			"of the snapshot. It has no pending tasks, journals or claims, because some of that work may have been done after the\n" +
			"snapshot. It has no registered addons. The next start of the operator begins a new start run.\n\n" +
			"The present file is renamed to FILE.replaced.N and not changed. After a crash of this command, FILE is either the present or\n" +
			"the restored store. Call the same command again to finish.",
		RunE: func(cmd *cobra.Command, argv []string) error {
			if from.store == "" {
				return &codedError{exitUsage, errors.New("name the store of a stopped operator with --store FILE; stop a running operator first")}
			}
			r, err := store.Restore(filepath.Clean(from.store), filepath.Clean(argv[0]), o)
			if err != nil {
				return err
			}
			return printRestoration(cmd.OutOrStdout(), from.store, argv[0], r, o.DryRun)
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what the command would do, and change nothing")
	cmd.Flags().BoolVar(&o.OtherStore, "other-store", false, "allow a snapshot of another store than the present one")
	return cmd
}

// printRestoration prints the result of a restore, or of a dry run.
func printRestoration(out io.Writer, path, snapshot string, r *store.Restoration, dryRun bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, name+"\t"+format+"\n", args...)
	}
	row("snapshot", "%s, of epoch %d of store %s", snapshot, r.Epoch, r.ID)
	if r.Damaged > 0 {
		row("damaged", "%d records of the snapshot cannot be read; see addon-operator store check --store %s", r.Damaged, snapshot)
	}
	row("replaces", "%s", describePresent(path, r))
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	row("lost", "what happened from %s to %s, %s", stamp(r.Lost.From), stamp(r.Lost.To), r.Lost.To.Sub(r.Lost.From).Round(time.Second))
	row("keeps", "%s", describeTables(r.Kept))
	row("drops", "%s", describeTables(r.Dropped))
	switch {
	case r.Before:
		row("result", "this snapshot was restored before, and no operator has started since; nothing to do")
	case dryRun:
		row("result", "nothing was changed (--dry-run); about %d bytes are needed, %d are free", r.Bytes, r.Free)
	default:
		row("result", "%s is restored; start the operator", path)
	}
	return w.Flush()
}

// describePresent describes the store file that the restored store replaces.
func describePresent(path string, r *store.Restoration) string {
	switch {
	case !r.Replaces:
		return "no file"
	case r.Before:
		return "nothing"
	}
	text := path
	if r.Aside != "" {
		text += ", now named " + r.Aside
	}
	switch {
	case r.Unreadable != nil:
		text += fmt.Sprintf(" (%v; whether the snapshot is of this store is not known)", r.Unreadable)
	case r.Present != r.ID:
		text += ", another store: " + r.Present
	}
	return text
}

// describeTables lists tables with their numbers of records. The names of the tables are those that
// store dump prints.
func describeTables(tables []store.TableCount) string {
	parts := make([]string, len(tables))
	for i, t := range tables {
		parts[i] = t.Table.String() + " " + strconv.Itoa(t.Records)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
