package crds

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
	"addon-operator/workflow/lifecycle"
)

// Options are the clients and settings for the installation of CustomResourceDefinitions.
type Options struct {
	Installer *crd.Installer
	// Filters are prefixes of file names. In the directory crds of a module, files whose names begin with one of
	// these prefixes are ignored.
	Filters []string
}

// Definitions installs the CustomResourceDefinitions of modules. It stores the digest of a module's CRD files in the
// record of the module.
type Definitions struct {
	log     *oncelog.Logger
	modules *desired.Modules
	helm    *helm.Client
	options Options
}

// New returns Definitions that install the CustomResourceDefinitions of modules. After an installation, Definitions
// makes client read the kinds of the API server again.
func New(o Options, log *oncelog.Logger, modules *desired.Modules, client *helm.Client) *Definitions {
	return &Definitions{log: log, modules: modules, helm: client, options: o}
}

// Steps returns the step that installs the CustomResourceDefinitions of a module.
func (d *Definitions) Steps() workflow.Steps {
	return workflow.Steps{lifecycle.EnsureCRDs: &ensureStep{d}}
}

// An ensureStep installs the CustomResourceDefinitions of a module.
type ensureStep struct{ definitions *Definitions }

// ensured is the data of ensureStep's outcome.
type ensured struct {
	// Digest is the digest of the module's CRD files.
	Digest string `json:"digest"`
	// Undefined is the error of the definitions that could not be installed; empty if all are installed.
	Undefined string `json:"undefined,omitempty"`
}

// Do installs the definitions in the cluster. If definitions are invalid or the API server rejects them, their error is
// part of the outcome, because a retry cannot succeed and would delay the other modules.
func (s *ensureStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	m, found := s.definitions.modules.Disk().Find(t.Subject.Module)
	if !found || m.CRDs == "" {
		return workflow.Outcome{Detail: "the module no longer has CRDs"}, nil
	}
	digest, err := s.definitions.modules.Digests().CRDs(m)
	if err != nil {
		return workflow.Outcome{}, err
	}
	definitions, wrong := crd.Read(m.CRDs, s.definitions.options.Filters)
	result, err := s.definitions.options.Installer.Ensure(ctx, definitions)
	for _, w := range result.Warnings {
		s.definitions.log.Warn().Str("module", m.Name).Msg(w)
	}
	if len(result.Written) > 0 {
		// The charts that are rendered next need the new kinds, also in .Capabilities. So the client of Helm must read the
		// served kinds again.
		err = errors.Join(err, s.definitions.helm.Refresh(ctx))
	}
	if err != nil {
		return workflow.Outcome{}, err
	}
	data := ensured{Digest: digest}
	out := workflow.Outcome{Detail: fmt.Sprintf("%d definitions, %d of them written", len(definitions), len(result.Written))}
	if wrong = m.NameFiles(errors.Join(wrong, result.Refused)); wrong != nil {
		data.Undefined = wrong.Error()
		out.Detail = "refused, so the module is not run: " + data.Undefined
		s.definitions.log.Error().Str("module", m.Name).Err(wrong).Msg("CustomResourceDefinitions of a module cannot be installed: the module is not run before they are corrected")
	}
	out.Data, err = json.Marshal(data)
	return out, err
}

// Apply records the digest of the CRD files, and the error of the definitions that could not be installed.
func (s *ensureStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
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

// Missing reports whether the definitions of m must be installed. This is necessary once in each start, after each
// change of their files, and again as long as their installation fails. The argument record is the record of m.
func (d *Definitions) Missing(m module.Module, record store.Module, startup store.Startup) (bool, error) {
	digest, err := d.modules.Digests().CRDs(m)
	if err != nil {
		return false, fmt.Errorf("module %s: %w", m.Name, err)
	}
	return missing(digest, record, startup), nil
}

// missing reports whether the definitions with this digest must still be installed in this start.
func missing(digest string, record store.Module, startup store.Startup) bool {
	return record.Defined != digest || record.DefinedIn != startup.StartRun || record.Undefined != ""
}
