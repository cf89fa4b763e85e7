package kube

import (
	"context"
	"maps"
	"sync"

	"addon-operator/internal/jq"
)

// Notifier calls a function when the objects that it follows have changed. It is safe for concurrent use.
type Notifier struct {
	reads *reads

	mu     sync.Mutex
	places map[View]place
}

// NewNotifier returns a Notifier that calls the given function after the first list of each view that the Notifier
// follows, and after changes. There may be only one call for several changes. The watches of the Notifier run only
// while [Notifier.Run] runs.
func NewNotifier(client *Client, observer Observer, changed func()) *Notifier {
	return &Notifier{reads: newReads(client, calls{changed: changed}, observer), places: map[View]place{}}
}

// Run runs the watches until ctx ends. Run returns when all their goroutines have ended. Call it once.
func (l *Notifier) Run(ctx context.Context) { l.reads.workers.run(ctx) }

// Follow sets the views that l follows, which replace those that it has followed before. Afterwards, l calls its
// function after the first list of each new view, and when an object of one of these views is added or deleted, or its
// filter result changes. After a gap in a watch, l also calls the function, even if nothing has changed. If a filter is
// not a valid jq program, Follow returns an error and changes nothing.
func (l *Notifier) Follow(views ...View) error {
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
			l.places[v] = l.reads.join(v.Source, filter, &owner{name: "notifier"})
		}
	}
	return nil
}

// calls is the Receiver for the watches of a Notifier.
type calls struct {
	silent

	changed func()
}

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
