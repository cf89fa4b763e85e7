package main

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
	"addon-operator/steps"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
)

// A debugAPI answers what people ask of an operator: of a running one, or of the
// store a stopped one left.
type debugAPI struct {
	db  *store.DB
	now func() time.Time

	// path is the store's file, began the start of the operator that runs.
	path  string
	began time.Time

	// site returns what knows the values files. It is a function as a stopped
	// store's is made only when it is asked for.
	values func() (*steps.Values, error)
	// snapshot and engine are nil where no operator runs.
	snapshot func(store.Subject) []*kube.Object
	engine   *workflow.Engine
	// changes is empty where no operator runs.
	changes *changeFeed
	// slow is nil where no operator runs.
	slow *slowRuns
	// render returns what the chart of a module renders to, loosely if asked for,
	// and what is released of it if that is asked for. It is nil where no operator
	// runs, as is params.
	render func(ctx context.Context, module string, loose, withReleased bool) (now, released string, err error)
	params *params
	// withdraw deletes the webhook configurations; nil where no operator runs.
	withdraw func(context.Context) (deleted []string, namespace string, err error)
	// standby says for whom the operator waits; nil where no operator runs.
	standby func() string
}

// debugAPI returns what answers for the running operator.
func (o *operator) debugAPI() *debugAPI {
	l := &debugAPI{
		db: o.db, now: time.Now, path: o.settings.Store, began: o.began, engine: o.engine, changes: &o.changes, slow: &o.slow,
		values: func() (*steps.Values, error) { return o.steps.Values, nil }, render: o.rendered, params: o.params,
		standby: o.leadership.standby,
	}
	l.withdraw = o.withdrawWebhooks
	l.snapshot = func(s store.Subject) []*kube.Object {
		if o.kube == nil {
			return nil
		}
		return o.kube.Snapshot(s)
	}
	return l
}

// routes are what the other commands use. A path ends in the format it is asked
// for in: .json, .yaml or .text.
func (l *debugAPI) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "debug endpoint is alive\n") })
	mux.HandleFunc("GET /queue/{what}", answer(l.queueRoute))
	mux.HandleFunc("GET /global/{what}", answer(l.globalRoute))
	mux.HandleFunc("GET /module/{what}", answer(l.moduleListRoute))
	mux.HandleFunc("GET /module/{module}/{what}", answer(l.moduleRoute))
	mux.HandleFunc("GET /module/{module}/render", l.renderRoute)
	mux.HandleFunc("POST /module/{module}/run", l.moduleRunRoute)
	mux.HandleFunc("POST /reload", l.reloadRoute)
	mux.HandleFunc("POST /webhooks/withdraw", l.withdrawRoute)
	mux.HandleFunc("GET /addons/{what}", answer(l.addonsRoute))
	mux.HandleFunc("GET /hook/{what...}", answer(l.hookRoute))
	mux.HandleFunc("GET /config/{what}", answer(l.configRoute))
	mux.HandleFunc("POST /config/set", l.configSetRoute)
	mux.HandleFunc("GET /graph", l.graphRoute)
	mux.HandleFunc("POST /task/{task}/retry", l.retryRoute)
	mux.HandleFunc("POST /task/{task}/skip", l.skipRoute)
	mux.HandleFunc("POST /task/{task}/cancel", l.cancelRoute)
	mux.HandleFunc("POST /task/{task}/release", l.releaseRoute)
	mux.HandleFunc("GET /store/check", l.checkRoute)
	mux.HandleFunc("GET /store/dump", l.dumpRoute)
	mux.HandleFunc("GET /store/snapshot", l.snapshotRoute)
	l.debugPages(mux, false)
	l.workflowRoutes(mux)
	return mux
}

// A page is an answer: data, and what it is as text. Without text it is YAML.
type page struct {
	data any
	text func(inspect.Look) string
}

// plainLook is how text looks that no terminal shows: nothing is cut off, times are in UTC.
func plainLook(now time.Time) inspect.Look {
	return inspect.Look{Program: program, Width: inspect.Unlimited, Whole: true, Now: now}
}

// A routeError is an error with its HTTP status.
type routeError struct {
	status int
	err    error
}

func (e *routeError) Error() string { return e.err.Error() }
func (e *routeError) Unwrap() error { return e.err }

func notFound(format string, args ...any) error {
	return &routeError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &routeError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// answer makes a handler of a function that returns the page for a path whose
// last part is what it is asked for, without the format.
func answer(find func(r *http.Request, what string) (page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		what, format := cutFormat(r.PathValue("what"))
		p, err := find(r, what)
		if err == nil {
			err = p.write(w, format)
		}
		if err != nil {
			fail(w, err)
		}
	}
}

// cutFormat parts the format from the last part of a path.
func cutFormat(path string) (what, format string) {
	last := strings.LastIndex(path, "/") + 1
	name, format, _ := strings.Cut(path[last:], ".")
	return path[:last] + name, format
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if e := (*routeError)(nil); errors.As(err, &e) {
		status = e.status
	}
	http.Error(w, err.Error(), status)
}

func (p page) write(w http.ResponseWriter, format string) error {
	if format == "json" {
		w.Header().Set("Content-Type", "application/json")
	}
	return p.encode(w, format)
}

// encode writes the page in a format.
func (p page) encode(w io.Writer, format string) error {
	var body []byte
	var err error
	switch {
	case format == "json":
		body, err = json.MarshalIndent(p.data, "", "  ")
		body = append(body, '\n')
	case format == "yaml", p.text == nil && (format == "" || format == "text"):
		body, err = yaml.Marshal(p.data)
	case (format == "text" || format == "") && p.text != nil:
		_, err = io.WriteString(w, p.text(plainLook(time.Now())))
		return err
	default:
		return badRequest("format %q is not served here: end the path in .json or .yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// showSecrets reports whether r asks for secrets as they are.
func showSecrets(r *http.Request) bool { return r.URL.Query().Get("show-secrets") == "true" }
