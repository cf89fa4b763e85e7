package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/crashtest"
	"addon-operator/cmd/addon-operator/debugapi"
)

// testFlags are the flags of the command "test".
type testFlags struct {
	options    crashtest.Options
	disposable bool
	output     output
}

// newTest returns the command "test".
func newTest() *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test --crash-every-step DIR",
		Short: "Find hooks and charts that do not tolerate a crash of the operator; exits with code 1 if there are any",
		Long: "Find hooks and charts that do not tolerate a crash of the operator; exits with code 1 if there are any.\n\n" +
			"DIR contains the directories modules and global-hooks, or one of them. The test first runs the operator twice without a\n" +
			"kill. Then it runs one round for each kill. A round kills the operator with SIGKILL before a step, after the step, or after\n" +
			"its effects, and starts the operator again. Then it compares the objects, the releases, the values and the failures with\n" +
			"those of the undisturbed runs. A kill after a step makes its hook run a second time with the same binding context. Ticks of\n" +
			"schedules are not tested.\n\n" +
			"The test needs an empty Kubernetes API for each round. --control-plane names a program that serves a Kubernetes API, such as\n" +
			"the one that make controlplane builds. To use a cluster instead, such as one that kind created, set --kube-config and\n" +
			"--disposable-cluster. In that cluster, the test deletes every object that is created during a round, including those of other programs.",
		Example: "  addon-operator test --crash-every-step . --control-plane bin/controlplane",
		Args:    args(cobra.ExactArgs(1)), ValidArgsFunction: completeDir,
	}
	f.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		f.options.Dir = argv[0]
		if err := f.check(cmd); err != nil {
			return err
		}
		return f.run(cmd)
	}
	return cmd
}

// declare declares the flags on cmd.
func (f *testFlags) declare(cmd *cobra.Command) {
	o, flags := &f.options, cmd.Flags()
	flags.Bool("crash-every-step", false, "kill the operator before and after every step; required, because there is no other test")
	flags.StringVar(&o.ControlPlane, "control-plane", "", "program that serves a Kubernetes API; one is started for each round")
	flags.StringVar(&o.Kubeconfig, "kube-config", "", "kubeconfig file of a cluster to use instead of --control-plane")
	flags.StringVar(&o.Context, "kube-context", "", "context of the kubeconfig")
	flags.BoolVar(&f.disposable, "disposable-cluster", false, "confirm that the test may delete all objects that appear in the cluster of --kube-config")
	flags.StringVar(&o.Namespace, "namespace", "addon-operator", "namespace of the ConfigMap and the releases; it is created")
	flags.StringVar(&o.ConfigMap, "config-map", "addon-operator", "name of the ConfigMap")
	flags.StringSliceVar(&o.Objects, "objects", nil, "files with objects to create before the operator starts, such as its ConfigMap; those without a namespace are created in --namespace")
	flags.StringSliceVar(&o.Events, "events", nil, "files with objects to apply after the first converge, so that hooks get events")
	flags.StringSliceVar(&o.Steps, "steps", nil, "steps to test, by their nodes, such as module-beforehelm; all if empty")
	flags.StringSliceVar(&o.Modules, "module", nil, "modules to test; all modules and global hooks if empty")
	flags.IntVar(&o.Rounds, "rounds", 0, "maximum number of kills, spread over the run; 0 is no limit")
	flags.IntVar(&o.Parallel, "parallel", 1, "number of rounds at a time; each has a control plane of about 300 MB")
	flags.DurationVar(&o.Quiet, "quiet", time.Second, "time without work after which a round has ended")
	flags.DurationVar(&o.Settle, "settle", 10*time.Second, "maximum wait for late changes if the result of a round differs")
	flags.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "timeout of one round")
	flags.StringVar(&o.WorkDir, "work-dir", "", "directory for the files of the rounds, a temporary directory if empty; the files of rounds with differences are kept")
	f.output.declare(cmd, "text", "json", "yaml")
}

// check returns an error for missing or conflicting flags.
func (f *testFlags) check(cmd *cobra.Command) error {
	if err := f.output.check(); err != nil {
		return err
	}
	o := &f.options
	every, _ := cmd.Flags().GetBool("crash-every-step") // the flag is declared
	var wrong string
	switch {
	case !every:
		wrong = "--crash-every-step is required: there is no other test"
	case o.ControlPlane == "" && o.Kubeconfig == "":
		wrong = "no Kubernetes API is named: build a control plane with make controlplane and name it with --control-plane, or name a cluster with --kube-config and --disposable-cluster"
	case o.ControlPlane != "" && o.Kubeconfig != "":
		wrong = "--control-plane and --kube-config cannot be used together: choose one"
	case o.Kubeconfig != "" && !f.disposable:
		wrong = "--kube-config needs --disposable-cluster: the test deletes all objects that are created in the cluster during a round, including those of other programs"
	case o.Kubeconfig != "" && o.Parallel > 1:
		wrong = "--parallel needs --control-plane: rounds cannot share a cluster"
	case o.Rounds < 0 || o.Parallel < 1:
		wrong = "--rounds must not be negative, and --parallel must be at least 1"
	case o.Quiet <= 0 || o.Settle < 0 || o.Timeout <= 0:
		wrong = "--quiet and --timeout must be positive, and --settle must not be negative"
	default:
		return nil
	}
	return &codedError{exitUsage, errors.New(wrong)}
}

// run runs the test and prints the report.
func (f *testFlags) run(cmd *cobra.Command) error {
	o, made := f.options, ""
	if o.WorkDir == "" {
		var err error
		if o.WorkDir, err = os.MkdirTemp("", "crash-test-"); err != nil {
			return err
		}
		made = o.WorkDir
	}
	o.Progress = func(line string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), line) }
	report, err := crashtest.Run(cmd.Context(), o)
	undisturbed := (*crashtest.UndisturbedError)(nil)
	if isNamed := errors.As(err, &undisturbed) || err == nil && len(report.Findings) > 0; made != "" && !isNamed {
		err = errors.Join(err, os.RemoveAll(made))
	}
	if cmd.Context().Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		return &codedError{exitUntested, err}
	}
	var body bytes.Buffer
	if f.output.isText() {
		body.WriteString(report.Text())
	} else if err := (debugapi.Page{Data: report}).Encode(&body, f.output.format); err != nil {
		return err
	}
	if _, err := body.WriteTo(cmd.OutOrStdout()); err != nil {
		return err
	}
	if len(report.Findings) > 0 {
		return &codedError{exitFailed, errors.New("")} // without a message, because the printed report says what failed
	}
	return nil
}
