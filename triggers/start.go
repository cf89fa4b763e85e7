package triggers

import (
	"context"
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// A StartMode says how a start treats the pending work.
type StartMode string

// Modes of starts.
const (
	// Always begins a start run, unless an unfinished one can be resumed.
	Always StartMode = "always"
	// IfChanged begins a start run only at the first start with a store, if the code or a file of a
	// chart has changed, if pending work was dropped, or if the last start run has not converged and
	// cannot be resumed.
	IfChanged StartMode = "if-changed"
	// Again begins a start run even if another one is unfinished.
	Again StartMode = "again"
	// Clean is like Again. Before the start run, Forget deletes the values patches, enabled
	// overrides and metrics of hooks, and the records of global hooks.
	Clean StartMode = "clean"
)

// Forget deletes the records that a clean start must not use. Forget is called before Begin. If
// Forget is interrupted, the next clean start deletes the remaining records.
func Forget(ctx context.Context, db *store.DB) error {
	err := db.Erase(ctx, store.EnabledOverridesKey(), store.At(store.Values), store.At(store.Metrics), store.HooksOf(""))
	if err != nil {
		return fmt.Errorf("delete the stored data of hooks (--startup=%s): %w", Clean, err)
	}
	return nil
}

// Circumstances are the inputs of a start that are not in the store.
type Circumstances struct {
	// Code is a digest of the global hooks, the modules in directories, the version of the
	// operator, and the settings on which the work of a start depends.
	Code string
	// ChartFiles is a digest of the files of charts. It must be set if the mode is IfChanged; in other modes it can be
	// empty. An unfinished start run is resumed even if ChartFiles has changed, because hooks can write files.
	ChartFiles string
	// Version is the version of the operator, and Pod is the name of its pod.
	Version, Pod string
	// Dropped is the reason why the pending work of the store was dropped; empty if no work was
	// dropped.
	Dropped string
	// NewContainer is set if the process runs in another container than the previous process. Files that hooks of an
	// unfinished start left in the previous container are gone.
	NewContainer bool
}

// Begin returns the events of an operator's start, for the transaction that starts the engine, and
// records the start. One event begins step 16 at the front of the main queue. If startsOver returns
// a reason, another event begins a start run behind step 16. The start run replaces an unfinished
// start or reload.
func Begin(tx *store.Tx, how StartMode, now Circumstances) ([]workflow.Event, error) {
	if err := store.AddStart(tx, now.Version, now.Pod); err != nil {
		return nil, err
	}
	startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
	if err != nil {
		return nil, err
	}
	content := workflow.Event{On: lifecycle.OnConfigMap, Cause: store.Cause{Detail: "operator start"}}
	why, err := startsOver(tx, startup, how, now)
	if err != nil {
		return nil, err
	}
	if why == "" {
		return []workflow.Event{content}, saveChartFiles(tx, startup, now.ChartFiles)
	}
	if startup.StartRun, err = store.NextRun(tx); err != nil {
		return nil, err
	}
	startup.Epoch, startup.Digest, startup.ChartFiles = tx.Epoch(), now.Code, now.ChartFiles
	start := workflow.Event{On: lifecycle.OnStart, Supersedes: lifecycle.GlobalBeforeAll, Cause: store.Cause{Detail: why}}
	return []workflow.Event{start, content}, store.Save(tx, store.StartupKey(), startup)
}

// saveChartFiles saves the digest of the files of charts if the record of the last start run has no digest, because
// that start run had another mode.
func saveChartFiles(tx *store.Tx, startup store.Startup, files string) error {
	if startup.ChartFiles != "" || files == "" {
		return nil
	}
	startup.ChartFiles = files
	return store.Save(tx, store.StartupKey(), startup)
}

// startsOver returns the reason why a start run begins. It returns an empty string if an unfinished
// start run resumes, or if the last one has converged, the mode is IfChanged, and nothing has changed.
func startsOver(tx *store.Tx, startup store.Startup, how StartMode, now Circumstances) (why string, err error) {
	switch {
	case now.Dropped != "":
		return "pending work was dropped: " + now.Dropped, nil
	case how == Again || how == Clean:
		return "--startup=" + string(how), nil
	case startup.StartRun == 0:
		return "first start with this store", nil
	case startup.Digest != now.Code:
		return "the code has changed since the last start", nil
	}
	run, ok, err := store.Load[store.Run](tx, store.RunKey(startup.StartRun))
	if err != nil {
		return "", err
	}
	converged := startup.HasConverged()
	unfinished := ok && run.Open > 0 && !converged
	switch {
	case unfinished && now.NewContainer:
		return fmt.Sprintf("in a new container, run %d was unfinished", startup.StartRun), nil
	case unfinished:
		return "", nil
	case !converged:
		return "the last start has not converged", nil
	case how != IfChanged:
		return "each start converges", nil
	case now.otherCharts(startup):
		return "files of charts have changed since the last start", nil
	}
	return "", nil
}

// otherCharts reports whether files of charts have changed since the last start run. If the record of that run has no
// digest, otherCharts returns false.
func (c Circumstances) otherCharts(startup store.Startup) bool {
	return startup.ChartFiles != "" && startup.ChartFiles != c.ChartFiles
}
