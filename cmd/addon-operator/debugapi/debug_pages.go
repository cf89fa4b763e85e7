package debugapi

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"addon-operator/cmd/addon-operator/settings"
)

// Paths are the paths in the lists that the pages / and /discovery of the debug port show. The port also serves the
// catalogs of namespaces, /queue/show, and the pages below /debug/pprof/.
var Paths = []string{"/", "/discovery", "/queue", "/queue/list", "/queue/main", "/addons", "/cluster/v2/catalog", "/debug/pprof/"}

// Pages returns a handler of the pages of the debug port. The debug port has no authentication: every process in the
// network namespace of the operator can read its pages. So the pages contain no values and no output of hooks, and
// change nothing.
func (api *API) Pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<html><head><title>Addon operator</title></head><body><h1>Addon operator %s</h1><ul>\n", api.Version)
		for _, path := range Paths {
			_, _ = fmt.Fprintf(w, "<li><a href=%q>%s</a></li>\n", path, path)
		}
		_, _ = fmt.Fprintln(w, "</ul></body></html>")
	})
	mux.HandleFunc("GET /discovery", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, strings.Join(Paths, "\n"))
	})
	api.debugPages(mux, true)
	mux.HandleFunc("GET /queue/{what}", answer(api.queues(true).queueRoute))
	return LocalOnly(mux)
}

// debugPages adds the pages that both the debug port and the debug socket serve. If redacted is true, the
// pages omit errors that can quote the output of hooks; see queueReader.
func (api *API) debugPages(mux *http.ServeMux, redacted bool) {
	mux.HandleFunc("GET /queue", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Set("showEmpty", "true")
		r.URL.RawQuery = query.Encode()
		p, err := api.queues(redacted).queueRoute(r, "list")
		if err == nil {
			err = p.Write(w, r.URL.Query().Get("output"))
		}
		if err != nil {
			Fail(w, err)
		}
	})
	mux.HandleFunc("GET /addons", func(w http.ResponseWriter, r *http.Request) {
		p, err := addonPages{api.DB}.addonsRoute(r, "list")
		if err == nil {
			err = p.Write(w, "json")
		}
		if err != nil {
			Fail(w, err)
		}
	})
	addonPages{api.DB}.catalogRoutes(mux)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// LocalOnly rejects requests whose host name is not a name of the loopback interface. Without this check, a web page
// from another site could make its own host name resolve to the loopback address, and then read the pages that the
// wrapped handler serves.
func LocalOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !settings.IsLoopback(strings.Trim(host, "[]")) {
			http.Error(w, fmt.Sprintf("host %q is not served: ask for localhost", host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
