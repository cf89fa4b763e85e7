package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"addon-operator/workflow/inspect"
)

// newStatus returns the command that shows the state of the whole operator.
func newStatus() *cobra.Command {
	v := &reportVerb[inspect.Status]{
		path: "/status", text: inspect.StatusText, bad: func(s *inspect.Status) bool { return s.Attention },
	}
	return v.declare(&cobra.Command{
		Use: "status", Short: "Show on one screen whether something needs attention",
		Long: "Show on one screen whether something needs attention: problems with the commands to type next, modules, queues that wait,\n" +
			"running tasks, and the store.\n\n" +
			"The exit code is " + strconv.Itoa(exitAttention) + " if something needs attention, and " + strconv.Itoa(exitFailed) + " if no operator responds.",
	})
}

// newDiagnose returns the command that looks for known patterns.
func newDiagnose() *cobra.Command {
	v := &reportVerb[inspect.Diagnosis]{
		path: "/diagnosis", text: inspect.DiagnosisText, bad: func(d *inspect.Diagnosis) bool { return len(d.Findings) > 0 },
	}
	cmd := v.declare(&cobra.Command{
		Use: "diagnose", Short: "Find known patterns of problems, with their evidence and what to do",
		Long: "Find known patterns of problems, with their evidence and what to do: crash loops, value loops, event storms, steps that fail for\n" +
			"one reason, steps that fail since a change, little room on the disk, wrong clocks, a second operator, and all problems of status.\n\n" +
			"The exit code is " + strconv.Itoa(exitAttention) + " if there is a finding, and " + strconv.Itoa(exitFailed) + " if no operator responds.",
	})
	archive := cmd.Flags().String("bundle", "", "file to create with a support archive (.tar.gz) without secrets, instead of printing the findings; - is stdout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("bundle") {
			return writeBundle(cmd, &v.from, *archive)
		}
		return v.show(cmd)
	}
	return cmd
}

// reportVerb is one call of a command that shows a report T about the whole operator.
type reportVerb[T any] struct {
	path string // of the route
	text func(*T, inspect.Look) string
	bad  func(*T) bool

	from   sourceFlags
	output output
	paint  paint
}

// declare adds flags and the code to cmd, and returns cmd.
func (v *reportVerb[T]) declare(cmd *cobra.Command) *cobra.Command {
	v.output.declare(cmd, "text", "wide", "json", "yaml")
	v.paint.declare(cmd)
	v.from.declare(cmd)
	cmd.Args = args(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return v.show(cmd) }
	return cmd
}

// show prints the report. The error says with its exit code that something needs attention.
func (v *reportVerb[T]) show(cmd *cobra.Command) error {
	if err := v.output.check(); err != nil {
		return err
	}
	body, err := fetch(cmd, &v.from, &output{format: "json", can: []string{"json"}}, v.path, nil)
	if err != nil {
		return err
	}
	report := new(T)
	if err := json.Unmarshal(body, report); err != nil {
		return fmt.Errorf("read the answer to %s: %w", v.path, err)
	}
	switch v.output.format {
	case "json":
	case "yaml":
		body, err = yaml.Marshal(report)
	default:
		look := v.paint.look(cmd.OutOrStdout(), v.from.zone())
		look.Now, look.Wide = time.Now(), v.output.format == "wide"
		look.Program, look.More = os.Args[0], v.from.again()
		body = []byte(v.text(report, look))
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	if err == nil && v.bad(report) {
		err = &codedError{exitAttention, errors.New("")} // the first line says it
	}
	return err
}
