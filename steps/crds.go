package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"addon-operator/internal/crd"
	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// An ensureCRDsStep installs the CustomResourceDefinitions of a module.
type ensureCRDsStep struct {
	log       *oncelog.Logger
	modules   *desired.Modules
	helm      *helm.Client
	installer *crd.Installer
	filters   []string // prefixes of the names of ignored files
}

// ensured is the data of ensureCRDsStep's outcome.
type ensured struct {
	// Digest is the digest of the files.
	Digest string `json:"digest"`
	// Undefined is the error of the definitions that could not be installed.
	Undefined string `json:"undefined,omitempty"`
}

// Do installs the definitions in the cluster. Invalid definitions are an outcome, because a retry
// cannot succeed and would delay the other modules.
func (s *ensureCRDsStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	m, found := s.modules.Disk().Find(t.Subject.Module)
	if !found || m.CRDs == "" {
		return workflow.Outcome{Detail: "it brings none any more"}, nil
	}
	digest, err := s.modules.Digests().CRDs(m)
	if err != nil {
		return workflow.Outcome{}, err
	}
	definitions, wrong := crd.Read(m.CRDs, s.filters)
	result, err := s.installer.Ensure(ctx, definitions)
	for _, w := range result.Warnings {
		s.log.Warn().Str("module", m.Name).Msg(w)
	}
	if len(result.Written) > 0 {
		// Charts must see the new kinds, in .Capabilities too.
		err = errors.Join(err, s.helm.Refresh(ctx))
	}
	if err != nil {
		return workflow.Outcome{}, err
	}
	data := ensured{Digest: digest}
	out := workflow.Outcome{Detail: fmt.Sprintf("%d definitions, %d of them written", len(definitions), len(result.Written))}
	if wrong = m.NameFiles(errors.Join(wrong, result.Refused)); wrong != nil {
		data.Undefined = wrong.Error()
		out.Detail = "refused, so the module is not run: " + data.Undefined
		s.log.Error().Str("module", m.Name).Err(wrong).Msg("CustomResourceDefinitions of a module cannot be installed: it is not run before they are corrected")
	}
	out.Data, err = json.Marshal(data)
	return out, err
}

// Apply records the installed definitions, and the error of the others.
func (s *ensureCRDsStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	if len(o.Data) == 0 {
		return nil, nil
	}
	var data ensured
	if err := json.Unmarshal(o.Data, &data); err != nil {
		return nil, err
	}
	key := store.ModuleKey(t.Subject.Module)
	record, known, err := store.Load[store.Module](tx, key)
	if err != nil || !known {
		return nil, err
	}
	l, err := store.LoadStartup(tx)
	if err != nil {
		return nil, err
	}
	record.Defined, record.DefinedIn, record.Undefined = data.Digest, l.StartRun, data.Undefined
	return nil, store.Save(tx, key, record)
}

// defining lists the enabled modules whose definitions must be installed: after each start, after a
// change of their files, and while their installation fails.
func (s *discoverStep) defining(found *discovered, set module.Set, k known) ([]graph.Item, error) {
	var items []graph.Item
	for i := range found.Modules {
		d := &found.Modules[i]
		m, _ := set.Find(d.Name)
		if !d.Enabled || d.Broken != "" || m.CRDs == "" {
			continue
		}
		d.Defines = true
		digest, err := s.modules.Digests().CRDs(m)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", d.Name, err)
		}
		was := k.modules[d.Name]
		if was.Defined != digest || was.DefinedIn != k.startup.StartRun || was.Undefined != "" {
			items = append(items, graph.Item{Subject: graph.Subject{Module: d.Name}})
		}
	}
	return items, nil
}
