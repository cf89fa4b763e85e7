package triggers

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Webhook makes the API server call the hooks of attached admission and conversion bindings. A
// Webhook raises no events: the requests of the API server are answered in parallel with the
// queues.
type Webhook struct {
	db    *store.DB
	serve func(webhook.Table)
	bound bindingReader

	changed <-chan struct{} // receives a value when bindings or the record of the start may have changed
}

// NewWebhook returns a Webhook that passes the attached bindings to the function serve, once Run is called.
func NewWebhook(db *store.DB, serve func(webhook.Table)) *Webhook {
	return &Webhook{db: db, serve: serve, changed: store.Changes(db, store.At(store.Bindings), store.StartupKey())}
}

// Run passes the attached bindings to the function serve, at once and after each change, until ctx is done. If the
// record of a binding is damaged, Run waits for the next change: the trigger [Kube] moves the record.
func (w *Webhook) Run(ctx context.Context) error {
	var before *webhook.Table
	for {
		t, err := w.attached()
		if err != nil && ctx.Err() == nil && unreadable(err, store.Bindings) == nil {
			return fmt.Errorf("read webhook bindings: %w", err)
		}
		if err == nil && (before == nil || !reflect.DeepEqual(t, *before)) {
			w.serve(t)
			before = &t
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
	}
}

// attached returns the attached bindings. Complete is set once the current start has converged, because from then on
// all bindings are attached. A converge of an earlier start is not enough: if the code has changed since then, a
// webhook can belong to another binding than before, and that binding may not be attached yet.
func (w *Webhook) attached() (t webhook.Table, err error) {
	err = w.db.View(func(tx *store.Tx) error {
		startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
		if err != nil {
			return err
		}
		t.Complete = startup.HasConverged()
		for b, err := range w.bound.all(tx) {
			if err != nil {
				return err
			}
			if b.Detached {
				continue
			}
			if err := add(&t, b.subject, b.Binding); err != nil {
				return fmt.Errorf("binding %s in the store: %w", b.subject.Binding, err)
			}
		}
		return nil
	})
	return t, err
}

// add adds a binding to t, if it is a webhook binding.
func add(t *webhook.Table, s graph.Subject, b store.Binding) error {
	asked := webhook.Asked{Module: s.Module, Hook: s.Hook, Binding: s.Binding}
	switch b.Kind {
	case store.Validating, store.Mutating:
		a := webhook.Admission{Asked: asked, Mutating: b.Kind == store.Mutating}
		if err := json.Unmarshal(b.Config, &a.Config); err != nil {
			return err
		}
		t.Admissions = append(t.Admissions, a)
	case store.Conversion:
		c := webhook.Conversion{Asked: asked}
		if err := json.Unmarshal(b.Config, &c.Config); err != nil {
			return err
		}
		t.Conversions = append(t.Conversions, c)
	case store.Kubernetes, store.Schedule: // these bindings raise events
	}
	return nil
}
