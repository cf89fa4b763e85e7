// Package planner computes what a converge would do, without doing it. Package planner executes the
// lifecycle graph with the steps of the operator on a copy of the store. The clients of these steps
// make dry runs. The enabled scripts of modules run, and hooks run only to print their configuration.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"addon-operator/internal/crd"
	"addon-operator/internal/dryrun"
	"addon-operator/internal/helm"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookrun"
	"addon-operator/store"
	"addon-operator/workflow/forecast"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// Input is the input of a plan.
type Input struct {
	// Steps are the options of the operator's steps. The planner does not use the clients, the
	// store and the observers in the options.
	Steps steps.Options
	// Helm are the options of the operator's Helm client, without the connection to the cluster.
	Helm helm.Options
	// Cluster is the connection to the API server. The planner copies it.
	Cluster *rest.Config
	// ConfigMap is the name of the operator's ConfigMap. Its namespace is Steps.Discovery.Namespace.
	ConfigMap string
	// Store is the store of the operator, which is only read; nil if there is none.
	Store *store.DB
	// InForce has the values of the running operator; nil if no operator runs.
	InForce *desired.Values
	// Basis is a text for people: the operator or the store from which the plan was made.
	Basis string

	// TempDir is an existing directory for files of the plan; empty for the system's temporary directory.
	TempDir string
	// Start is true for the plan of a start run, for example with a new image, and false for the plan of
	// a reload.
	Start bool
	// Content is the manifest of a ConfigMap to use instead of the ConfigMap in the cluster; nil means the ConfigMap in
	// the cluster.
	Content []byte
	// Modules are the modules to plan; empty for all.
	Modules []string
	// ShowSecrets disables the masking of secrets in the plan.
	ShowSecrets bool
}

// tables are the tables of the store that are copied for a plan, because the steps read them.
// Pending work and history are not copied.
var tables = []store.Table{
	store.Meta, store.Values, store.EnabledOverrides, store.Hooks, store.Bindings, store.ConfigMap, store.Modules,
	store.Releases, store.Addons, store.AddonNames, store.Configurations, store.Rounds, store.Holds, store.Holders,
	store.Contents, store.Charts, store.Chunks, store.AddonModules,
}

// A planner makes one plan.
type planner struct {
	Input
	session *dryrun.Session
	dry     *helm.DryRun
	db      *store.DB // the copy of the store
	steps   *steps.Lifecycle
	helm    *helm.Client
	hide    func(any) (any, error)

	before   map[string]store.Module // the modules before the planned converge
	released map[string]bool         // names of the releases in the cluster
	modules  map[string]*inspect.PlanModule
	order    []string
	plan     inspect.Plan
}

// Make returns the plan of a converge. The function hide must return a copy of a JSON tree in which
// secrets are replaced.
func Make(ctx context.Context, in Input, hide func(any) (any, error)) (plan *inspect.Plan, err error) {
	p := &planner{
		Input: in, session: &dryrun.Session{}, dry: &helm.DryRun{}, hide: hide,
		modules: map[string]*inspect.PlanModule{}, released: map[string]bool{},
	}
	if in.ShowSecrets {
		p.hide = func(tree any) (any, error) { return tree, nil }
	}
	scratch, err := os.MkdirTemp(in.TempDir, "plan-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := p.open(scratch); err != nil {
		return nil, err
	}
	defer p.db.Close()
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	return p.finish()
}

// open copies the store, and creates the clients and the steps. The steps write files to the directory scratch.
func (p *planner) open(scratch string) (err error) {
	copied := &store.Memory{}
	if p.Store != nil {
		if copied, err = store.CopyOf(p.Store, tables...); err != nil {
			return err
		}
	}
	if p.db, err = store.OpenMemory(copied, store.Options{}); err != nil {
		return err
	}
	config := rest.CopyConfig(p.Cluster)
	p.session.Wrap(config)
	client, err := kube.NewClient(config)
	if err != nil {
		return err
	}
	about := p.Helm
	about.Config, about.DryRun, about.Log = config, p.dry, nil
	if p.helm, err = helm.New(about); err != nil {
		return err
	}
	options := p.Steps
	options.State.DB, options.State.Log, options.State.ConfigMap = p.db, zerolog.Nop(), client.ConfigMap(p.namespace(), p.ConfigMap)
	options.Hooks.Objects, options.Releases.Helm = nil, p.helm
	options.Discovery.Helm, options.Discovery.Kube = p.helm, client
	options.Discovery.CRDs.Installer = crd.NewInstaller(client, p.helm.Labels()).DryRun()
	options.Observer, options.Changes = nil, nil
	if options.State.AddonModulesDir = ""; p.Store != nil {
		options.State.AddonModulesDir = filepath.Join(scratch, "addon-modules")
	}
	p.steps = steps.New(options)
	return p.present(config)
}

// namespace returns the namespace of the operator.
func (p *planner) namespace() string { return p.Steps.Discovery.Namespace }

// present makes the client return p.Content instead of the ConfigMap in the cluster, if p.Content
// is set.
func (p *planner) present(config *rest.Config) error {
	if p.Content == nil {
		return nil
	}
	var o map[string]any
	if err := yaml.Unmarshal(p.Content, &o); err != nil {
		return fmt.Errorf("--config-map: %w", err)
	}
	if kind, _ := o["kind"].(string); kind != "ConfigMap" {
		return fmt.Errorf("--config-map: the file must hold the manifest of a ConfigMap (got kind %q)", kind)
	}
	o["metadata"] = map[string]any{"name": p.ConfigMap, "namespace": p.namespace(), "resourceVersion": "1", "uid": "plan"}
	base := ""
	if at, err := url.Parse(config.Host); err == nil && strings.Contains(config.Host, "://") {
		base = strings.TrimSuffix(at.Path, "/")
	}
	p.session.Present(base+"/api/v1/namespaces/"+p.namespace()+"/configmaps/"+p.ConfigMap, o)
	return nil
}

// run executes step 16, which applies the ConfigMap, and then the converge, on the copy of the store.
func (p *planner) run(ctx context.Context) error {
	if _, err := p.steps.State.Scan(); err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	if err := p.readBefore(ctx); err != nil {
		return err
	}
	first, run := lifecycle.GlobalBeforeAll, uint64(0)
	if err := p.db.Update(func(tx *store.Tx) (err error) {
		if run, err = store.NextRun(tx); err != nil || !p.Start {
			return err
		}
		first = lifecycle.GlobalOnStartup
		l, _, err := store.Load[store.Startup](tx, store.StartupKey())
		l.StartRun, l.Epoch = run, tx.Epoch()
		return errors.Join(err, store.Save(tx, store.StartupKey(), l))
	}); err != nil {
		return err
	}
	f := &forecast.Forecast{DB: p.db, Implementation: p.steps.Implementation(), Run: run, Skip: p.skips, Done: p.done}
	if err := f.Only(ctx, lifecycle.ConfigMapChanged); err != nil {
		return err
	}
	if err := p.refused(); err != nil {
		return err
	}
	return f.From(ctx, first)
}

// refused returns an error if the operator would refuse the ConfigMap in p.Content. If the operator
// refuses the ConfigMap in the cluster, refused adds a problem to the plan instead.
func (p *planner) refused() error {
	return p.db.View(func(tx *store.Tx) error {
		refused, is, err := store.Load[store.RefusedConfig](tx, store.RefusedConfigKey())
		switch {
		case err != nil || !is:
			return err
		case p.Content != nil:
			return fmt.Errorf("--config-map: the operator would refuse this content: %s", refused.Error)
		}
		p.plan.Problems = append(p.plan.Problems, "the ConfigMap is refused, so its last valid content is used: "+refused.Error)
		return nil
	})
}

// readBefore records the modules in the store and the releases in the cluster before the planned
// converge.
func (p *planner) readBefore(ctx context.Context) error {
	if err := p.db.View(func(tx *store.Tx) (err error) {
		p.before, err = modulesIn(tx)
		return err
	}); err != nil {
		return err
	}
	releases, err := p.helm.List(ctx)
	for _, r := range releases {
		p.released[r.Name] = true
	}
	return err
}

func modulesIn(tx *store.Tx) (map[string]store.Module, error) {
	found := map[string]store.Module{}
	for k := range tx.Range(store.At(store.Modules)) {
		m, _, err := store.Load[store.Module](tx, k)
		if err != nil {
			return nil, err
		}
		parts, err := k.Parts()
		if err != nil {
			return nil, err
		}
		found[parts.Str()] = m
	}
	return found, nil
}

// skips reports whether the plan omits the module of s, because p.Modules does not name it.
func (p *planner) skips(_ graph.NodeID, s graph.Subject) bool {
	return len(p.Modules) > 0 && s.Module != "" && !slices.Contains(p.Modules, s.Module)
}

// module returns the part of the plan about a module. module adds this part if it does not exist.
func (p *planner) module(name string) *inspect.PlanModule {
	m := p.modules[name]
	if m == nil {
		m = &inspect.PlanModule{Name: name, Action: inspect.PlanNone}
		p.modules[name] = m
		p.order = append(p.order, name)
	}
	return m
}

// done adds the result of a task to the plan.
func (p *planner) done(r forecast.Result) {
	if r.Subject.Module == "" {
		p.plan.Hooks = append(p.plan.Hooks, p.hooks(r)...)
		return
	}
	m := p.module(r.Subject.Module)
	if r.Err != nil && m.Error == "" {
		m.Error = r.Err.Error()
	}
	m.Hooks = append(m.Hooks, p.hooks(r)...)
	switch r.Node.ID {
	case lifecycle.ModuleRun:
		if m.Action != inspect.PlanOn {
			m.Action = p.runs(m.Name)
		}
	case lifecycle.ReleaseCheck:
		if slices.Contains(r.Facts, lifecycle.Outdated) {
			m.Release = r.Outcome.Detail
		}
	case lifecycle.ModuleDelete:
		if slices.Contains(r.Facts, lifecycle.Unwanted) {
			m.Action, m.Release = inspect.PlanOff, "deleted, with its objects"
		}
	case lifecycle.ModulePurge:
		m.Action, m.Why, m.Release = inspect.PlanPurge, "there is a release, and no module directory", "deleted, with its objects"
	}
	p.note(m, r.Node.ID == lifecycle.EnsureCRDs)
}

// runs returns the action for a module that would run: PlanOn if the module was disabled before and
// has no release, and PlanRun otherwise. Without a store, runs returns PlanRun for a module without
// a chart, because it is not known whether this module was enabled before.
func (p *planner) runs(name string) inspect.PlanAction {
	on := p.before[name].Enabled || p.released[name]
	if p.Store == nil && !p.hasChart(name) {
		on = true
	}
	if on {
		return inspect.PlanRun
	}
	return inspect.PlanOn
}

func (p *planner) hasChart(name string) bool {
	m, found := p.steps.State.Modules.Disk().Find(name)
	return found && m.Chart != module.NoChart
}

// note adds to m the changes that dry runs have requested since the last call of note. If the
// argument definitions is true, note adds them as changes of CRDs.
func (p *planner) note(m *inspect.PlanModule, definitions bool) {
	for _, c := range p.session.Take() {
		o := p.object(c)
		if definitions {
			m.CRDs = append(m.CRDs, o)
		} else {
			m.Objects = append(m.Objects, o)
		}
	}
	for _, r := range p.dry.Take() {
		for _, h := range r.Hooks {
			m.HelmHooks = append(m.HelmHooks, inspect.PlanObject{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Namespace, Name: h.Name})
		}
		if r.Deleted {
			continue
		}
		m.Revision = r.Revision
		if p.InForce == nil && p.released[m.Name] {
			m.Values = p.fieldChanges(sections(r.Before, m.Name), sections(r.After, m.Name))
		}
	}
}

// sections returns the global section and the section of the module from the values of a release.
// sections omits the list of enabled modules, which the operator adds to the global section.
func sections(all map[string]any, module string) map[string]any {
	found := map[string]any{}
	for _, key := range []string{values.Global, values.Camel(module)} {
		section, _ := all[key].(map[string]any)
		left := map[string]any{}
		for name, value := range section {
			if key != values.Global || name != "enabledModules" {
				left[name] = value
			}
		}
		found[key] = left
	}
	return found
}

// hooks returns the hooks that the node of the result r would run.
func (p *planner) hooks(r forecast.Result) (hooks []inspect.PlanHook) {
	_ = p.db.View(func(tx *store.Tx) error {
		for _, item := range r.Items {
			h := inspect.PlanHook{Name: item.Subject.Hook, Binding: cmp.Or(hookrun.BindingType(r.Node.ID), "kubernetes")}
			if runs, err := hookrun.Runs(tx, r.Node, item.Subject); err == nil && runs && !slices.Contains(hooks, h) {
				hooks = append(hooks, h)
			}
		}
		return nil
	})
	return hooks
}
