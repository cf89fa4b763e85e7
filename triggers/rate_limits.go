package triggers

import (
	"context"

	"addon-operator/store"
	"addon-operator/workflow"
)

// A RateLimits makes the engine check the deferred tasks again when the configurations of hooks have
// changed, because they contain the rate limits.
type RateLimits struct {
	engine  *workflow.Engine
	changed <-chan struct{}
}

// NewRateLimits returns a RateLimits for the hooks in db.
func NewRateLimits(db *store.DB, engine *workflow.Engine) *RateLimits {
	return &RateLimits{engine: engine, changed: store.Changes(db, store.At(store.Hooks))}
}

// Run follows the configurations of hooks until ctx is done. The engine checks the deferred tasks once
// for all changes that happen during a check.
func (l *RateLimits) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
			l.engine.RateLimitsChanged()
		}
	}
}
