package kube

import (
	"context"
	"maps"
	"sync"

	"addon-operator/internal/jq"
)

// Lookout says that objects have changed, to those who then read them. It may be used from many goroutines at once.
type Lookout struct {
	reads *reads

	mu     sync.Mutex
	places map[View]place
}

// NewLookout returns a Lookout that calls changed when it has first seen what it follows, and whenever that has changed.
// Several changes may be one call. Nothing is watched before [Lookout.Run] runs.
func NewLookout(client *Client, observer Observer, changed func()) *Lookout {
	return &Lookout{reads: newReads(client, calls{changed}, observer), places: map[View]place{}}
}

// Run watches until ctx ends. It returns when all goroutines have ended. Call it once.
func (l *Lookout) Run(ctx context.Context) { l.reads.workers.run(ctx) }

// Follow makes views all that is followed. A change is one of what a view's filter shows. Where a filter is no jq program,
// nothing changes and the error says so.
func (l *Lookout) Follow(views ...View) error {
	filters := map[View]*jq.Filter{}
	for _, v := range views {
		filter, err := jq.CompileOwn(v.Filter)
		if err != nil {
			return err
		}
		filters[v] = filter
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.places, func(v View, p place) bool {
		_, stays := filters[v]
		if !stays {
			p.leave(false)
		}
		return !stays
	})
	for v, filter := range filters {
		if _, followed := l.places[v]; !followed {
			l.places[v] = l.reads.join(v.Source, filter, &owner{name: "lookout"})
		}
	}
	return nil
}

// calls receives what a Lookout's watches show.
type calls struct{ changed func() }

func (c calls) Stored(context.Context, View) (string, error) { return "", nil }
func (c calls) Left(context.Context, View, []string) error   { return nil }

func (c calls) Listed(context.Context, List) error {
	c.changed()
	return nil
}

func (c calls) Changed(_ context.Context, batch Batch) error {
	if len(batch.Changes) > 0 {
		c.changed()
	}
	return nil
}
