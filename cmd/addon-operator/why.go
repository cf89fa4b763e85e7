package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"addon-operator/workflow/inspect"
)

// newWhy returns the command "why".
func newWhy() *cobra.Command {
	var from sourceFlags
	t := table[inspect.Why]{from: &from, text: inspect.WhyText}
	cmd := &cobra.Command{
		Use: "why SUBJECT", Short: "Explain why something waits, fails, ran or is off: the causes, down to the root",
		Long: "Explain a subject by its causes, with their times: the nearest cause first, the root last.\n\n" +
			"  MODULE         why it fails or waits, is enabled or disabled, ran last, and why Helm upgraded its release\n" +
			"  MODULE/HOOK    why the hook fails or waits, or ran last; for a global hook, its name\n" +
			"  CONFIGURATION  why the addons configuration fails or waits, or was processed last\n" +
			"  QUEUE          what the task at its head waits for\n" +
			"  TASK, RUN      why the task with this ID waits, why the run with this number began and has not ended\n\n" +
			"\"why not SUBJECT\" is the same.",
		Example: "  addon-operator why ingress\n  addon-operator why not ingress/hooks/certificate.sh\n  addon-operator why main",
		Args:    args(cobra.RangeArgs(1, 2)), ValidArgsFunction: from.complete(listModules),
	}
	t.declare(cmd)
	from.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if len(argv) == 2 && argv[0] != "not" {
			return &codedError{exitUsage, fmt.Errorf("name one subject; usage: %s", cmd.UseLine())}
		}
		return t.show(cmd, "/workflow/why", url.Values{"subject": {argv[len(argv)-1]}})
	}
	return cmd
}
