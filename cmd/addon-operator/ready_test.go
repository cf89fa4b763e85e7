package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestTheOperatorIsNotReadyWhileAModuleIsPending(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		converged bool
		put       func(*store.Tx, *store.Task) error
		code      int
		text      string
	}{
		{"nothing is pending", true, nil, http.StatusOK, "Startup converge done.\n"},
		{"the start is in progress", false, nil, http.StatusInternalServerError, "Startup converge in progress\n"},
		{"the next run of a module is deferred", true, func(tx *store.Tx, t *store.Task) error {
			t.Node, t.Queue, t.Due = string(lifecycle.ModuleRun), "main", tx.Now().Add(time.Minute)
			return store.SaveOutOfQueue(tx, t)
		}, http.StatusInternalServerError, "Startup converge done, pending modules: m\n"},
		{"an event is deferred", true, func(tx *store.Tx, t *store.Task) error {
			t.Node, t.Queue, t.Due, t.Every = string(lifecycle.ModuleKubernetesEvent), "main", tx.Now().Add(time.Minute), time.Hour
			return store.SaveOutOfQueue(tx, t)
		}, http.StatusOK, "Startup converge done.\n"},
		{"a failing run is retried in its retry queue", false, func(tx *store.Tx, t *store.Task) error {
			t.Node, t.Pos = string(lifecycle.ModuleRun), store.Pos{Queue: "parallel-module-m", Slot: store.FirstSlot}
			return store.SaveTask(tx, t)
		}, http.StatusInternalServerError, "Startup converge in progress, pending modules: m\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, err := store.OpenMemory(new(store.Memory), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			s := &status{db: db, leadership: new(leadership)}
			s.begun.Store(true)
			s.converged.Store(c.converged)
			if err := db.Update(func(tx *store.Tx) error {
				if c.put == nil {
					return nil
				}
				return c.put(tx, &store.Task{ID: store.ID{Epoch: 1, N: 1}, Graph: lifecycle.Graph.Name, Subject: graph.Subject{Module: "m"}})
			}); err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			s.readyz(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
			if answer.Code != c.code || answer.Body.String() != c.text {
				t.Errorf("status %d: %q, want %d: %q", answer.Code, answer.Body, c.code, c.text)
			}
		})
	}
}
