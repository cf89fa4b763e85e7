package triggers

import (
	"context"
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// Startup says what a start does with what an earlier one has left.
type Startup string

// The ways to start.
const (
	// Always resumes an unfinished start, and else begins one.
	Always Startup = "always"
	// IfChanged begins one only when the code is not what the last converge saw.
	IfChanged Startup = "if-changed"
	// Again begins one even where one is unfinished.
	Again Startup = "again"
	// Clean is Again after values patches, enabled flags and metrics set by hooks,
	// and the global hooks themselves, are forgotten.
	Clean Startup = "clean"
)

// Forget deletes what a clean start forgets. It is called before Begin. A process that
// ends in between has forgotten a part, and the next clean start forgets the rest.
func Forget(ctx context.Context, db *store.DB) error {
	err := db.Erase(ctx, store.OpinionsKey(), store.At(store.Values), store.At(store.Metrics), store.HooksOf(""))
	if err != nil {
		return fmt.Errorf("forget what hooks have set (--startup=%s): %w", Clean, err)
	}
	return nil
}

// Begin returns the events of an operator's start, for the transaction that
// starts the engine: step 16, which goes to the front of the main queue, and
// where there is no start to resume, a start walk right behind it, in the place
// of an unfinished reload. The digest is that of the code. Where the pending work
// of the store was dropped, dropped says why, and a start run begins in any case.
func Begin(tx *store.Tx, how Startup, digest, dropped string) ([]workflow.Event, error) {
	life, _, err := store.Load[store.Life](tx, store.LifeKey())
	if err != nil {
		return nil, err
	}
	content := workflow.Event{On: lifecycle.OnConfigMap, Cause: store.Cause{Detail: "operator start"}}
	goOn, err := resumes(tx, life, how, digest)
	if err != nil || goOn && dropped == "" {
		return []workflow.Event{content}, err
	}
	if life.StartWalk, err = store.NextWalk(tx); err != nil {
		return nil, err
	}
	life.Epoch, life.Digest = tx.Epoch(), digest
	start := workflow.Event{On: lifecycle.OnStart, Supersedes: lifecycle.GlobalBeforeAll, Cause: store.Cause{Detail: string(how)}}
	if dropped != "" {
		start.Cause.Detail += "; pending work was dropped: " + dropped
	}
	return []workflow.Event{start, content}, store.Save(tx, store.LifeKey(), life)
}

// resumes reports whether what is pending goes on and no start walk is begun.
func resumes(tx *store.Tx, life store.Life, how Startup, digest string) (bool, error) {
	if how == Again || how == Clean || life.StartWalk == 0 || life.Digest != digest {
		return false, nil
	}
	walk, ok, err := store.Load[store.Walk](tx, store.WalkKey(life.StartWalk))
	if err != nil {
		return false, err
	}
	unfinished := ok && walk.Open > 0 && life.Converged < life.StartWalk
	return unfinished || how == IfChanged && life.Converged >= life.StartWalk, nil
}
