package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"addon-operator/workflow/inspect"
)

// newStatus returns the command "status".
func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show on one screen whether something needs attention",
		Long: "Show on one screen whether something needs attention. The screen has the problems and the next command for each, the modules,\n" +
			"the waiting queues, the running tasks, and the store.\n\n" +
			"The exit code is " + strconv.Itoa(exitAttention) + " if something needs attention, and " + strconv.Itoa(exitFailed) + " if no operator responds.",
	}
	newReport(cmd, "/status", inspect.StatusText, func(s *inspect.Status) bool { return s.Attention })
	return cmd
}

// newDiagnose returns the command "diagnose".
func newDiagnose() *cobra.Command {
	cmd := &cobra.Command{
		Use: "diagnose", Short: "Find known patterns of problems, with their evidence and what to do",
		Long: "Find known patterns of problems, with their evidence and what to do: crash loops, value loops, event storms, steps that fail for\n" +
			"one reason, steps that fail since a change, little room on the disk, wrong clocks, a second operator, and all problems of status.\n\n" +
			"The exit code is " + strconv.Itoa(exitAttention) + " if there is a finding, and " + strconv.Itoa(exitFailed) + " if no operator responds.",
	}
	v := newReport(cmd, "/diagnosis", inspect.DiagnosisText, func(d *inspect.Diagnosis) bool { return len(d.Findings) > 0 })
	archive := cmd.Flags().String("bundle", "", "file to create with a support archive (.tar.gz) instead of printing the findings; likely secrets are left out; - is stdout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("bundle") {
			return writeBundle(cmd, v.from, *archive)
		}
		return v.show(cmd)
	}
	return cmd
}

// reportVerb is a command that prints a table about the whole operator. The exit code of the
// command says whether something needs attention.
type reportVerb[T any] struct {
	table[T]

	path string // path of the route
	bad  func(*T) bool
}

// newReport declares the flags of a report on cmd.
func newReport[T any](cmd *cobra.Command, path string, text func(*T, inspect.Layout) string, bad func(*T) bool) *reportVerb[T] {
	v := &reportVerb[T]{table: table[T]{from: new(sourceFlags), text: text}, path: path, bad: bad}
	v.declare(cmd)
	v.from.declare(cmd)
	cmd.Args = args(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return v.show(cmd) }
	return v
}

// show prints the report. If something needs attention, show returns an error with the exit code
// exitAttention.
func (v *reportVerb[T]) show(cmd *cobra.Command) error {
	if err := v.output.check(); err != nil {
		return err
	}
	report, body, err := v.read(cmd, v.path, nil)
	if err != nil {
		return err
	}
	switch {
	case v.output.isText():
		body = v.page(cmd, report)
	case v.output.format == "yaml":
		body, err = yaml.Marshal(report)
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	if err == nil && v.bad(report) {
		err = &codedError{exitAttention, errors.New("")} // without a message, because the first line of the report says that something needs attention
	}
	return err
}
