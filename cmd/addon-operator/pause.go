package main

import (
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// pausable is a kind of work that the commands "pause" and "resume" accept, with a lister that
// completes names of this kind. Only the kind "all" has no name.
type pausable struct {
	kind, name string
	about      string // description of the work in the help of pause and resume
	names      lister
}

var pausables = []pausable{
	{kind: "all", about: "all work"},
	{"queue", "QUEUE", "the tasks of a queue", listQueues},
	{"module", "MODULE", "the runs, the deletion, the events and the schedule ticks of a module", listModules},
	{"hook", "[MODULE/]HOOK", "the events and schedule ticks of a hook; of a global hook also its other bindings", listHooks},
}

// newPause returns the command "pause".
func newPause() *cobra.Command {
	var verbs []func(*sourceFlags) *cobra.Command
	for _, p := range pausables {
		verbs = append(verbs, p.pause)
	}
	cmd := newGroup("pause", "Pause all work, a queue, a module or a hook", verbs...)
	cmd.Long = "Keep work from starting until the command resume, also after a restart of the operator. Attempts that run go on to their " +
		"end; task cancel ends them. Events and schedule ticks are recorded meanwhile, and delivered after the resumption. The tasks of a " +
		"paused module or hook leave their queues, so the tasks behind them go on. A run of a paused module ends with its current step " +
		"and starts over after the resumption. Webhooks are not paused."
	return cmd
}

// newResume returns the command "resume".
func newResume() *cobra.Command {
	var verbs []func(*sourceFlags) *cobra.Command
	for _, p := range pausables {
		verbs = append(verbs, p.resume)
	}
	return newGroup("resume", "Resume work that was paused", verbs...)
}

// command returns a command for p without flags and without a RunE function. The caller must add
// the flags and the RunE function.
func (p pausable) command(from *sourceFlags, usage, about string) *cobra.Command {
	cmd := &cobra.Command{Use: p.kind + usage, Short: about + "; needs a running operator", Args: args(cobra.NoArgs)}
	if p.names != nil {
		cmd.Use, cmd.Args = p.kind+" "+p.name+usage, args(cobra.ExactArgs(1))
		cmd.ValidArgsFunction = from.complete(p.names)
	}
	return cmd
}

// pause returns the command that pauses work of the kind p.
func (p pausable) pause(from *sourceFlags) *cobra.Command {
	var reason string
	cmd := p.command(from, " --reason TEXT", "Pause "+p.about)
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown to others until the resumption")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if strings.TrimSpace(reason) == "" {
			return &codedError{exitUsage, errors.New("a pause needs a reason, which is shown to others: add --reason TEXT")}
		}
		return request(cmd, from, "/pause/"+p.kind, url.Values{"name": argv, "reason": {reason}})
	}
	return cmd
}

// resume returns the command that resumes work of the kind p.
func (p pausable) resume(from *sourceFlags) *cobra.Command {
	cmd := p.command(from, "", "Resume "+p.about)
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return request(cmd, from, "/resume/"+p.kind, url.Values{"name": argv, "reason": {*reason}})
	}
	return cmd
}
