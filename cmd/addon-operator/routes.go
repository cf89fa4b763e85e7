package main

import (
	"net/http"

	"addon-operator/internal/series"
)

// publicPaths are the paths of the public port, for probes, scrapers and scripts that wait for a
// converge. All other paths are served on the debug socket and, without secrets, on the debug port.
var publicPaths = []string{"/healthz", "/readyz", "/status/converge", "/metrics", "/metrics/hooks"}

// publicRoutes serves publicPaths.
func (o *operator) publicRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", o.status.readyz)
	mux.HandleFunc("GET /status/converge", o.status.convergeStatus)
	mux.Handle("GET /metrics", o.metrics.Page())
	mux.Handle("GET /metrics/hooks", series.Page(o.hookMetrics))
	return mux
}
