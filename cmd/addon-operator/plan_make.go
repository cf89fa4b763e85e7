package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/planner"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/hook"
	"addon-operator/internal/redact"
	"addon-operator/sdk/shell"
	"addon-operator/steps/desired"
	"addon-operator/steps/hooks"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// running has the parts of the running operator that a plan reads.
type running struct {
	db       *store.DB
	values   *desired.Values
	hooks    hooks.Runner
	settings settings.Settings
}

// plan returns what a converge of the running operator would do. If r names other directories, plan returns what a
// start run with these directories would do.
func (o running) plan(ctx context.Context, r debugapi.PlanRequest) (*inspect.Plan, error) {
	s := o.settings
	basis, start := "the running operator", r.ModulesDirs != "" || r.GlobalHooksDir != ""
	if start {
		basis += ", as if it started with other directories"
	}
	s.ModulesDirs, s.GlobalHooksDir = cmp.Or(r.ModulesDirs, s.ModulesDirs), cmp.Or(r.GlobalHooksDir, s.GlobalHooksDir)
	in, err := planInput(&s, r)
	if err != nil {
		return nil, err
	}
	in.Store, in.InForce, in.Steps.Hooks.Runner = o.db, o.values, o.hooks
	in.Steps.Discovery.Pod, in.Steps.Discovery.InPod = ownPod(&s)
	in.TempDir, in.Start, in.Basis = s.TempDir, start, basis+basisOfConfig(r)
	redactor, err := debugapi.RedactorOf(o.db)
	if err != nil {
		return nil, err
	}
	return planner.Make(ctx, in, redactor.Values)
}

// basisOfConfig returns a text about the ConfigMap of a plan; empty if the plan uses the ConfigMap
// in the cluster.
func basisOfConfig(r debugapi.PlanRequest) string {
	if r.ConfigMap == nil {
		return ""
	}
	return ", with the ConfigMap of a file"
}

// planInput returns the part of a plan's input that follows from the settings s and the request r.
// The caller adds the rest, such as the store and the values in force.
func planInput(s *settings.Settings, r debugapi.PlanRequest) (in planner.Input, err error) {
	if in.Cluster, err = connect(s); err != nil {
		return in, err
	}
	if in.Helm, err = helmOptions(s); err != nil {
		return in, err
	}
	in.Steps, in.ConfigMap = stepSettings(s), s.ConfigMap
	in.Content, in.Modules, in.ShowSecrets = r.ConfigMap, r.Modules, r.ShowSecrets
	for _, dir := range in.Steps.State.ModulesDirs {
		if _, err := os.Stat(dir); err != nil {
			return in, debugapi.BadRequest("--modules-dir: %v", err)
		}
	}
	return in, nil
}

// planAlone plans the converge that a start of the operator would do. It needs no running operator. If s names a store,
// the plan uses the records of the store.
func planAlone(ctx context.Context, s *settings.Settings, r debugapi.PlanRequest) (plan *inspect.Plan, err error) {
	in, err := planInput(s, r)
	if err != nil {
		return nil, err
	}
	in.Start, in.Basis = true, "a start of the operator, without its store"
	temp, err := os.MkdirTemp("", "addon-operator-plan-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	in.TempDir = temp
	id := ""
	if s.Store != "" {
		db, err := store.OpenReadOnly(s.Store, store.Options{Clock: time.Now})
		if err != nil {
			return nil, err
		}
		defer db.Close()
		in.Store, in.Basis, id = db, "a start of the operator with the store "+s.Store, db.ID()
	}
	in.Basis += basisOfConfig(r)
	var redactor redact.Redactor
	if in.Store != nil {
		if redactor, err = debugapi.RedactorOf(in.Store); err != nil {
			return nil, err
		}
	}
	runner, err := hook.NewRunner(hook.Options{
		TempDir: filepath.Join(temp, "runs"), ToolsDir: s.ToolsDir, Framework: shell.Framework, StoreID: cmp.Or(id, "plan"),
		Clock: time.Now, Timeout: s.HookTimeout,
	})
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	in.Steps.Hooks.Runner = runner
	return planner.Make(ctx, in, redactor.Values)
}

// readPlanConfig returns the text of the file at path, which --config-map names. readPlanConfig
// returns nil if path is empty.
func readPlanConfig(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config-map: %w", err)
	}
	return text, nil
}

// absolute makes the paths in a colon-separated list of directories absolute, because the working directory of the
// operator can be another one.
func absolute(dirs string) (string, error) {
	if dirs == "" {
		return "", nil
	}
	parts := strings.Split(dirs, ":")
	for i, dir := range parts {
		var err error
		if parts[i], err = filepath.Abs(dir); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, ":"), nil
}
