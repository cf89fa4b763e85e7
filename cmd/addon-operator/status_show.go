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
	v := new(statusVerb)
	cmd := &cobra.Command{
		Use: "status", Short: "Show on one screen whether something needs attention", Args: args(cobra.NoArgs),
		Long: "Show on one screen whether something needs attention: problems with the commands to type next, modules, queues that wait,\n" +
			"running tasks, and the store.\n\n" +
			"The exit code is " + strconv.Itoa(exitAttention) + " if something needs attention, and " + strconv.Itoa(exitFailed) + " if no operator responds.",
	}
	v.output.declare(cmd, "text", "wide", "json", "yaml")
	v.paint.declare(cmd)
	v.from.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return v.show(cmd) }
	return cmd
}

// statusVerb is one call of status.
type statusVerb struct {
	from   sourceFlags
	output output
	paint  paint
}

// show prints the status. The error says with its exit code that something needs attention.
func (v *statusVerb) show(cmd *cobra.Command) error {
	if err := v.output.check(); err != nil {
		return err
	}
	body, err := fetch(cmd, &v.from, &output{format: "json", can: []string{"json"}}, "/status", nil)
	if err != nil {
		return err
	}
	status := new(inspect.Status)
	if err := json.Unmarshal(body, status); err != nil {
		return fmt.Errorf("read the answer to /status: %w", err)
	}
	switch v.output.format {
	case "json":
	case "yaml":
		body, err = yaml.Marshal(status)
	default:
		look := v.paint.look(cmd.OutOrStdout(), v.from.zone())
		look.Now, look.Wide = time.Now(), v.output.format == "wide"
		look.Program, look.More = os.Args[0], v.from.again()
		body = []byte(inspect.StatusText(status, look))
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	if err == nil && status.Attention {
		err = &codedError{exitAttention, errors.New("")} // the first line says it
	}
	return err
}
