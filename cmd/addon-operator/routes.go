package main

import (
	"net/http"

	"addon-operator/internal/series"
)

// publicPaths are the paths of the port for health and metrics. Probes and scrapers request these
// paths. Scripts request /readyz or /status/converge until a converge has ended. The debug socket serves
// the paths of all commands, and the debug port serves [debugapi.Paths].
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
