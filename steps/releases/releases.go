package releases

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"addon-operator/internal/helm"
	"addon-operator/steps/charts"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/report"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// An Observer is notified of operations with Helm, to log and count them. An Observer does not influence the steps.
type Observer interface {
	charts.Observer
	report.Observer
}

// Options are the clients for the releases of modules.
type Options struct {
	Helm *helm.Client
}

// Releases are the Helm releases of modules. In the store, the record of a release has the result of its last check
// or upgrade.
type Releases struct {
	Charts *charts.Charts

	db       *store.DB
	log      *oncelog.Logger
	helm     *helm.Client
	observer report.Observer
}

// New returns the releases of the modules of state. Operations with Helm are reported to observer.
func New(o Options, state *scan.State, observer Observer) *Releases {
	return &Releases{
		Charts: charts.New(state.DB, state.Log, o.Helm, state.Modules, state.Values, observer),
		db:     state.DB, log: state.Log, helm: o.Helm, observer: observer,
	}
}

// read returns the release that module must have, and the current record of the release. If the module has no chart,
// release is nil.
func (rs *Releases) read(module string) (release *helm.Release, known knownRelease, err error) {
	if release, err = rs.Charts.Release(module); err != nil || release == nil {
		return nil, known, err
	}
	err = rs.db.View(func(tx *store.Tx) error {
		known.At = tx.Now()
		known.Release, _, err = store.Load[store.Release](tx, store.ReleaseKey(module))
		return err
	})
	return release, known, err
}

// saveRelease saves the record of the module's release that the outcome o contains, if o has data. If a hook has
// removed an object after the step read the old record, the object stays recorded as removed.
func (rs *Releases) saveRelease(tx *store.Tx, module string, o workflow.Outcome) error {
	if len(o.Data) == 0 {
		return nil
	}
	var next knownRelease
	if err := json.Unmarshal(o.Data, &next); err != nil {
		return err
	}
	old, ok, err := store.Load[store.Release](tx, store.ReleaseKey(module))
	if err != nil {
		return err
	}
	next.Changed = old.Changed
	if !ok || old.Revision != next.Revision {
		next.Changed = tx.Now()
	}
	for _, removed := range old.Removed {
		if removed.At.After(next.At) && !next.Lacks(removed.Object) {
			next.Removed = append(next.Removed, removed)
		}
	}
	return store.Save(tx, store.ReleaseKey(module), next.Release)
}

// Status returns the status of the module's release in the cluster, and whether the module has a release.
func (rs *Releases) Status(ctx context.Context, module string) (status string, released bool, err error) {
	state, err := rs.helm.Find(ctx, module)
	return string(state.Status), state.Status != helm.Absent, err
}

// Uninstall deletes the release of the module of task t. If the release does not exist, Uninstall does nothing. If
// objects were kept because they belong to another release, the outcome names the first of them, and has the number of
// the others.
func (rs *Releases) Uninstall(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	kept, err := rs.helm.Uninstall(rs.watchHelmHooks(ctx, t), t.Subject.Module)
	return workflow.Outcome{Detail: rs.reportKept(t.Subject.Module, kept)}, err
}

// reportKept logs the objects in kept, which were not deleted because they belong to another release. It returns a
// text about them for the history.
func (rs *Releases) reportKept(module string, kept []helm.Kept) string {
	for _, k := range kept {
		rs.log.Info().Str("module", module).Str("object", k.Object.String()).Str("owner", k.Owner).
			Msg("object is kept: it belongs to another release")
	}
	switch len(kept) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("kept %s", kept[0])
	default:
		return fmt.Sprintf("kept %s; and %d more", kept[0], len(kept)-1)
	}
}

// watchHelmHooks returns a context for a Helm action on the release of the module of task t. If the action waits long
// for the Job or Pod of a Helm hook, the wait is reported to the observer.
func (rs *Releases) watchHelmHooks(ctx context.Context, t workflow.Task) context.Context {
	return helm.WithAwaits(ctx, func(object helm.Object) (ended func()) {
		return report.Slow(rs.observer, report.SlowRun{
			Task: t, Node: graph.NodeID(t.Node), Since: rs.db.Now(), After: report.SlowLeast, Awaits: object.String(),
		})
	})
}

// A knownRelease is the record of a release, and the time at which it was read.
type knownRelease struct {
	store.Release
	At time.Time `json:"at"`
}
