package main

import (
	"net/http"

	"addon-operator/store"
)

// publicRoutes are what the operator serves to probes and scrapers.
func (o *operator) publicRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", o.readyz)
	return mux
}

// privateRoutes are what the other commands use.
func (o *operator) privateRoutes() http.Handler {
	mux := http.NewServeMux()
	return mux
}

// readyz tells whether a converge has come to its end in this life.
func (o *operator) readyz(w http.ResponseWriter, _ *http.Request) {
	var life store.Life
	err := o.db.View(func(tx *store.Tx) (err error) {
		life, _, err = store.Load[store.Life](tx, store.LifeKey())
		return err
	})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case life.ConvergedIn != o.db.Epoch():
		http.Error(w, "Startup converge in progress", http.StatusInternalServerError)
	default:
		_, _ = w.Write([]byte("Startup converge done.\n"))
	}
}
