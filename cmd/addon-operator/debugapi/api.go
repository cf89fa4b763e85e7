// Package debugapi serves the debug socket, to which the commands connect, and the pages of the debug port.
package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// program is the name of the operator's program, for texts that recommend a command.
const program = "addon-operator"

// An API serves the routes of the commands. The data of an API is the data of a running operator, or of the store of a
// stopped operator.
type API struct {
	DB  *store.DB
	Now func() time.Time

	// Path is the path of the store file.
	Path string
	// Began is the time at which the running operator started.
	Began time.Time
	// Version is the version of the operator.
	Version string

	// Values returns the values that are read from files. If no operator runs, each call reads the
	// files.
	Values func() (*desired.Values, error)
	// Changes wakes the requests that watch a run or follow a timeline. If no operator runs, there are
	// no changes.
	Changes *ChangeFeed

	// Scans keeps the last scan of the queues for later requests; nil means no cache.
	Scans *inspect.ScanCache

	// The following fields are empty if no operator runs.

	// Namespace is the namespace of the operator.
	Namespace string
	// Snapshot returns the objects in the snapshot of a binding.
	Snapshot func(graph.Subject) []*kube.Object
	Engine   *workflow.Engine
	Slow     *SlowRuns
	// Render returns the rendered chart of a module. If loose is true, values are not validated, and output that is not
	// a valid manifest is returned too. If withReleased is true, Render also returns the manifest of the installed
	// release.
	Render func(ctx context.Context, module string, loose, withReleased bool) (now, released string, err error)
	Params *Params
	// Plan returns what a converge would change.
	Plan func(context.Context, PlanRequest) (*inspect.Plan, error)
	// Withdraw deletes the admission webhook configurations of the operator. It returns their kinds and names, and the
	// namespace of the operator.
	Withdraw func(context.Context) (deleted []string, namespace string, err error)
	// Standby describes the wait for the Lease. The result is zero if this operator does not wait.
	Standby func() Standby
	// Lease describes the Lease of this operator.
	Lease func() string
	// Requests returns statistics of the requests to the API server in the last minutes.
	Requests func() metrics.Requests
	// Skew returns the time by which the clock of the API server is ahead of the clock of the operator,
	// and the time at which the operator noticed the difference. skew is negative if the clock of the
	// API server is behind. Both results are zero if the difference is small.
	Skew func() (skew time.Duration, since time.Time)
	// Webhooks returns the problems of webhooks that the operator observes.
	Webhooks func() []inspect.Problem
}

// Routes returns a handler of the routes that the commands use. On most routes, the suffix of the path
// selects the format of the answer: .json, .yaml or .text.
func (api *API) Routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "debug endpoint is alive\n") })
	api.storeRoutes(mux)
	api.actionRoutes(mux)
	api.debugPages(mux, false)
	runs := api.runs()
	runs.workflowRoutes(mux)
	api.statusRoutes(mux)
	snapshots := snapshotReader{api.DB, api.Snapshot}
	hooks := hookPages{api.DB, snapshots, api.Engine != nil}
	mux.HandleFunc("GET /hook/{what...}", answer(hooks.hookRoute))
	modules := modulePages{db: api.DB, runs: runs, snapshots: snapshots, values: api.Values, render: api.Render}
	mux.HandleFunc("GET /global/{what}", answer(modules.globalRoute))
	mux.HandleFunc("GET /module/{what}", answer(modules.moduleListRoute))
	mux.HandleFunc("GET /module/{module}/{what}", answer(modules.moduleRoute))
	mux.HandleFunc("GET /module/{module}/render", modules.renderRoute)
	mux.HandleFunc("GET /graph", modules.graphRoute)
	mux.HandleFunc("POST /plan.json", api.planRoute)
	mux.HandleFunc("GET /queue/{what}", answer(api.queues(false).queueRoute))
	mux.HandleFunc("GET /addons/{what}", answer(addonPages{api.DB}.addonsRoute))
	mux.HandleFunc("GET /config/{what}", answer(api.Params.configRoute))
	return mux
}

// storeRoutes adds the routes that check, dump and copy the store.
func (api *API) storeRoutes(mux *http.ServeMux) {
	pages := storePages{api.DB, api.Path}
	mux.HandleFunc("GET /store/check", pages.checkRoute)
	mux.HandleFunc("GET /store/dump", pages.dumpRoute)
	mux.HandleFunc("GET /store/snapshot", pages.snapshotRoute)
}

// actionRoutes adds the routes that change the state of the operator or objects of the cluster.
func (api *API) actionRoutes(mux *http.ServeMux) {
	a := actions{api.DB, api.Engine, api.Withdraw, api.Params}
	mux.HandleFunc("POST /config/set", a.configSetRoute)
	mux.HandleFunc("POST /hook/run", a.hookRunRoute)
	mux.HandleFunc("POST /module/{module}/run", a.moduleRunRoute)
	mux.HandleFunc("POST /pause/{kind}", a.pauseRoute)
	mux.HandleFunc("POST /reload", a.reloadRoute)
	mux.HandleFunc("POST /resume/{kind}", a.resumeRoute)
	mux.HandleFunc("POST /webhooks/withdraw", a.withdrawRoute)
	mux.HandleFunc("POST /task/{task}/retry", a.retryRoute)
	mux.HandleFunc("POST /task/{task}/skip", a.skipRoute)
	mux.HandleFunc("POST /task/{task}/cancel", a.cancelRoute)
	mux.HandleFunc("POST /task/{task}/release", a.releaseRoute)
}

func (api *API) runs() runPages {
	return runPages{api.DB, api.Engine, api.Changes, api.Slow, api.Standby, api.Webhooks, api.Scans}
}

func (api *API) queues(redacted bool) queueReader {
	return queueReader{api.DB, api.Engine, redacted}
}

// A Standby describes the wait of an operator for its Lease. It is zero if the operator does not wait.
type Standby struct {
	Text  string // description of the wait
	Since time.Time
	// Error says why the operator could not read or acquire the Lease. Error is empty if the operator only waits for
	// another operator, which holds the Lease.
	Error string
}

// A Page is an answer of a route. In the formats JSON and YAML, the page is Data. In the format text, the page is the
// result of the function text, or YAML if the function is nil.
type Page struct {
	Data any
	text func(inspect.Layout) string
}

// plainLayout returns a layout for texts that are not shown on a terminal: nothing is cut, and times are
// in UTC.
func plainLayout(now time.Time) inspect.Layout {
	return inspect.Layout{Program: program, Width: inspect.Unlimited, Whole: true, Now: now}
}

// A routeError is an error with the HTTP status of the answer.
type routeError struct {
	status int
	err    error
}

func (e *routeError) Error() string { return e.err.Error() }
func (e *routeError) Unwrap() error { return e.err }

func notFound(format string, args ...any) error {
	return &routeError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// BadRequest returns an error with status 400, for an invalid request.
func BadRequest(format string, args ...any) error {
	return &routeError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// answer returns a handler that calls the function find for each request, and serves the page that find returns. The
// second argument of find is the part of the path that matches {what} in the route, without the suffix for the format.
func answer(find func(r *http.Request, what string) (Page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		what, format := cutFormat(r.PathValue("what"))
		p, err := find(r, what)
		if err == nil {
			err = p.Write(w, format)
		}
		if err != nil {
			Fail(w, err)
		}
	}
}

// cutFormat splits a path before its suffix. cutFormat returns the path without the suffix, and the
// suffix without its dot; format is empty if the path has no suffix.
func cutFormat(path string) (what, format string) {
	last := strings.LastIndex(path, "/") + 1
	name, format, _ := strings.Cut(path[last:], ".")
	return path[:last] + name, format
}

// Fail answers with err and its HTTP status, or with status 500 if err has none.
func Fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if e := (*routeError)(nil); errors.As(err, &e) {
		status = e.status
	}
	http.Error(w, err.Error(), status)
}

// Write answers a request with the page in the given format. An empty format means text.
func (p Page) Write(w http.ResponseWriter, format string) error {
	if format == "json" {
		w.Header().Set("Content-Type", "application/json")
	}
	return p.Encode(w, format)
}

// Encode writes the page in the given format: "json", "yaml" or "text". An empty format means text.
func (p Page) Encode(w io.Writer, format string) error {
	var body []byte
	var err error
	switch {
	case format == "json":
		body, err = json.MarshalIndent(p.Data, "", "  ")
		body = append(body, '\n')
	case format == "yaml", p.text == nil && (format == "" || format == "text"):
		body, err = yaml.Marshal(p.Data)
	case (format == "text" || format == "") && p.text != nil:
		_, err = io.WriteString(w, p.text(plainLayout(time.Now())))
		return err
	default:
		return BadRequest("format %q is not served here: ask for json, yaml or text", format)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// showSecrets reports whether r asks for unmasked secrets.
func showSecrets(r *http.Request) bool { return r.URL.Query().Get("show-secrets") == "true" }
