package addons

import (
	"context"
	"errors"
	"sync"

	"addon-operator/internal/api"
	"addon-operator/store"
)

// errChanged is the cause with which a fetch is canceled if its configuration was changed or deleted.
var errChanged = errors.New("the configuration was changed or deleted while its repositories were fetched")

// fetches has the running fetch of each configuration, so that the fetch can be canceled.
type fetches struct {
	mu      sync.Mutex
	running map[api.Identity]*runningFetch // guarded by mu
}

type runningFetch struct {
	uid        string
	generation int64
	end        context.CancelCauseFunc
}

// begin returns a context for the fetch of a configuration. The context is canceled when the configuration changes.
// The caller must call end when the fetch has ended.
func (f *fetches) begin(ctx context.Context, id api.Identity, known store.Configuration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = map[api.Identity]*runningFetch{}
	}
	f.running[id] = &runningFetch{uid: known.UID, generation: known.Generation, end: cancel}
	return ctx, func() {
		cancel(nil)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.running, id)
	}
}

// interrupt cancels the running fetch of a configuration if the fetch began for another UID or an older generation,
// or if the configuration is being deleted.
func (f *fetches) interrupt(id api.Identity, uid string, generation int64, deleted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := f.running[id]
	if running != nil && (deleted || running.uid != uid || running.generation < generation) {
		running.end(errChanged)
	}
}
