package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/workflow/inspect"
)

// exitChange is the exit code of the command "plan" if something would change. Other commands use
// it for wrong usage. So the exit code for wrong usage of "plan" is 1, which is also the exit code
// for its other errors.
const exitChange = 2

// planVerb implements the command "plan".
type planVerb struct {
	table[inspect.Plan]

	from     sourceFlags
	settings settings.Settings // settings of the operator; used if the plan is made without a running operator
	flags    *pflag.FlagSet    // the flags of settings
	read     func() error      // reads the environment variables into settings
	config   string            // path of the file with the ConfigMap
}

// operatorFlags are the flags of the operator that the command "plan" also has. If the command makes the plan without a
// running operator, it reads all other settings of the operator from their environment variables.
var operatorFlags = []string{
	"modules-dir", "global-hooks-dir", "namespace", "kube-config", "kube-context", "kube-server", "store", "allow-purge",
	"helm-driver", "helm-ignore-release", "crd-extra-labels",
}

var (
	// aloneFlags are the flags in operatorFlags that make the command "plan" work without a running operator.
	aloneFlags = []string{"kube-config", "kube-context", "kube-server", "store"}
	// sentFlags are the flags in operatorFlags that replace settings of the running operator.
	sentFlags = []string{"modules-dir", "global-hooks-dir"}
)

// newPlan returns the command "plan".
func newPlan() *cobra.Command {
	v := &planVerb{flags: pflag.NewFlagSet("operator", pflag.ContinueOnError)}
	v.table.from, v.text = &v.from, inspect.PlanText
	v.read = settings.Declare(&v.settings, v.flags)
	cmd := &cobra.Command{
		Use: "plan [MODULE...]", Short: "Show what a converge would do, without doing it",
		Long: "Show what a converge would do, without doing it: modules that are switched on, switched off or purged, and why; values that\n" +
			"change; CRDs and objects that are created, changed, deleted or handed over to another release; hooks that would run.\n\n" +
			"Objects are changed by dry runs of the API server, so defaults and admission are part of the result. Hooks are not run: the\n" +
			"values that their last runs patched are used. Hooks print their configuration (--config), and enabled scripts run, because\n" +
			"they decide which modules are enabled.\n\n" +
			"Without --kube-config, --kube-context, --kube-server or --store, the running operator makes the plan with its own settings.\n" +
			"Only --modules-dir and --global-hooks-dir replace its settings, and flags for other settings of the operator are an error.\n" +
			"With one of the four flags, the command makes the plan without a running operator, for example in CI. The plan is then for\n" +
			"a start of the operator. Settings that are not flags of this command are read from the same environment variables as for\n" +
			"the operator.\n\n" +
			"The exit code is 0 if nothing would change, 2 if something would change, and 1 for all errors, also for a module that would fail.",
		Example: "  addon-operator plan\n  addon-operator plan --config-map new.yaml web\n  addon-operator plan --kube-config ~/.kube/config --namespace addons --modules-dir modules",
	}
	v.declare(cmd)
	cmd.Args = cobra.ArbitraryArgs
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &codedError{exitFailed, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	cmd.RunE = func(cmd *cobra.Command, modules []string) error { return v.run(cmd, modules) }
	return cmd
}

// declare declares the flags.
func (v *planVerb) declare(cmd *cobra.Command) {
	v.table.declare(cmd)
	f := cmd.Flags()
	f.StringVar(&v.config, "config-map", "", "file with a manifest of the operator's ConfigMap to use instead of the one in the cluster")
	f.StringVar(&v.from.socket, "debug-unix-socket", "", "socket of the running operator [$"+settings.SocketVariable+", ./"+localSocket+", "+settings.DefaultSocket+"]")
	f.BoolVar(&v.from.showSecrets, "show-secrets", false, "show the data of Secrets and the settings that are masked by default: those named like password, secret, token, credentials or key")
	for _, name := range operatorFlags {
		flag := v.flags.Lookup(name)
		if name == "store" {
			flag.Usage, flag.DefValue = "store file of a stopped operator, or snapshot, for the values that hooks patched; makes the plan without a running operator", ""
		}
		if slices.Contains(sentFlags, name) {
			flag.DefValue = "" // the default is the setting of the running operator
		}
		f.AddFlag(flag)
	}
}

// run prints the plan. If something would change, run returns an error with the exit code
// exitChange.
func (v *planVerb) run(cmd *cobra.Command, modules []string) error {
	plan, err := v.make(cmd, modules)
	if err == nil {
		err = v.print(cmd, plan)
	}
	switch {
	case err != nil:
		return &codedError{exitFailed, err}
	case plan.Failed():
		return &codedError{exitFailed, errors.New("")} // without a message, because the printed plan shows the error
	case plan.Changes:
		return &codedError{exitChange, errors.New("")} // without a message, because the first line of the printed plan says that something would change
	default:
		return nil
	}
}

func (v *planVerb) print(cmd *cobra.Command, plan *inspect.Plan) (err error) {
	var body []byte
	switch v.output.format {
	case "json":
		body, err = json.MarshalIndent(plan, "", "  ")
		body = append(body, '\n')
	case "yaml":
		body, err = yaml.Marshal(plan)
	default:
		body = v.page(cmd, plan)
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	return err
}

// make returns the plan. If one of the aloneFlags is set, make computes the plan in this process.
// Otherwise make requests the plan from the running operator.
func (v *planVerb) make(cmd *cobra.Command, modules []string) (*inspect.Plan, error) {
	if err := v.output.check(); err != nil {
		return nil, err
	}
	r := debugapi.PlanRequest{Modules: modules, ShowSecrets: v.from.showSecrets}
	var err error
	if r.ConfigMap, err = readPlanConfig(v.config); err != nil {
		return nil, err
	}
	isSet := cmd.Flags().Changed
	if !slices.ContainsFunc(aloneFlags, isSet) {
		return v.ask(cmd, r)
	}
	if err := v.read(); err != nil {
		return nil, err
	}
	if !isSet("store") {
		v.settings.Store = "" // the environment variable names the store of the running operator, which is in use
	}
	return planAlone(cmd.Context(), &v.settings, r)
}

// ask requests the plan from the running operator.
func (v *planVerb) ask(cmd *cobra.Command, r debugapi.PlanRequest) (*inspect.Plan, error) {
	form := url.Values{"module": r.Modules}
	for _, name := range operatorFlags {
		flag := cmd.Flags().Lookup(name)
		if !flag.Changed {
			continue
		}
		if !slices.Contains(sentFlags, name) {
			return nil, fmt.Errorf("--%s has no effect on the plan of the running operator, which uses its own setting; remove the flag, "+
				"or make the plan without a running operator: add one of --%s", name, strings.Join(aloneFlags, ", --"))
		}
		dirs, err := absolute(flag.Value.String())
		if err != nil {
			return nil, err
		}
		form.Set(name, dirs)
	}
	if r.ConfigMap != nil {
		form.Set("config-map", string(r.ConfigMap))
	}
	if r.ShowSecrets {
		form.Set("show-secrets", "true")
	}
	var body bytes.Buffer
	err := v.from.with(cmd, func(ctx context.Context, s *source) error { return s.post(ctx, "/plan.json", form, &body) })
	if err != nil {
		return nil, err
	}
	plan := new(inspect.Plan)
	if err := json.Unmarshal(body.Bytes(), plan); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return plan, nil
}
