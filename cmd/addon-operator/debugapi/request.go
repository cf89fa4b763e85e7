package debugapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// commandRoom is how long a command waits for room in the store before it fails.
const commandRoom = 10 * time.Second

// errNotRunning is the answer to a request that only a running operator can carry out.
var errNotRunning = &routeError{http.StatusConflict, errors.New("no operator runs: start it, and leave --store out")}

// reloadRoute requests a converge. With allow-purge=N in the form, its discovery may delete up to N
// releases without the safety check.
func (act actions) reloadRoute(w http.ResponseWriter, r *http.Request) {
	allowed := 0
	if text := r.FormValue("allow-purge"); text != "" {
		var err error
		if allowed, err = strconv.Atoi(text); err != nil || allowed < 1 {
			Fail(w, BadRequest("allow-purge must be a number of releases above 0 (got %q)", text))
			return
		}
	}
	by := requester(r)
	event := workflow.Event{On: lifecycle.OnReloadRequest}
	if allowed > 0 {
		event.Cause.Detail = "up to " + count(allowed, "release") + " may be deleted"
	}
	act.request(w, r, "reload", event, func(tx *store.Tx) error {
		if allowed == 0 {
			return nil
		}
		return store.Save(tx, store.AllowedPurgeKey(), store.AllowedPurge{Releases: allowed, By: by, At: tx.Now()})
	})
}

// carriedOut stores that the command verb was carried out for r. If the store does not take it, the answer says so.
func (act actions) carriedOut(w http.ResponseWriter, r *http.Request, verb, what string) {
	err := act.db.Update(func(tx *store.Tx) error {
		return store.AddAction(tx, store.Action{Verb: verb, What: what, By: requester(r), Reason: reasonGiven(r)})
	})
	if err != nil {
		_, _ = fmt.Fprintf(w, "the timeline does not show this: %v\n", err)
	}
}

// requester returns the person who sent r.
func requester(r *http.Request) string { return cmp.Or(r.FormValue("by"), "somebody") }

// reasonGiven returns the reason of the person who sent r, empty if they gave none.
func reasonGiven(r *http.Request) string { return strings.TrimSpace(r.FormValue("reason")) }

// moduleRunRoute requests a run of one module.
func (act actions) moduleRunRoute(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("module")
	event := workflow.Event{On: lifecycle.OnRunRequest, Subject: graph.Subject{Module: name}}
	act.request(w, r, "module run", event, func(tx *store.Tx) error { return canRun(tx, name) })
}

// canRun returns an error if a requested run of the module would do nothing.
func canRun(tx *store.Tx, name string) error {
	m, known, err := store.Load[store.Module](tx, store.ModuleKey(name))
	switch {
	case err != nil:
		return err
	case !known:
		return notFound("no module is called %q; see module list, and run reload if its directory is new", name)
	case !m.Enabled:
		return &routeError{http.StatusConflict, fmt.Errorf("module %s is not enabled (%s), so it is not run", name, m.Why)}
	}
	return nil
}

// request calls prepare, raises event and records the command verb, in one transaction, for the user named in the form. It answers
// with the number of the run. The event is durable when the answer is sent.
func (act actions) request(w http.ResponseWriter, r *http.Request, verb string, event workflow.Event, prepare func(*store.Tx) error) {
	if act.engine == nil {
		Fail(w, errNotRunning)
		return
	}
	event.Cause.By = requester(r)
	action := store.Action{Verb: verb, What: event.Subject.Module, Subject: event.Subject, By: event.Cause.By, Reason: reasonGiven(r)}
	var run uint64
	ctx, cancel := context.WithTimeout(r.Context(), commandRoom)
	defer cancel()
	err := act.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
		if err = prepare(tx); err != nil {
			return err
		}
		if run, err = store.NextRun(tx); err != nil {
			return err
		}
		action.Run = run
		return errors.Join(store.AddAction(tx, action), act.engine.Raise(tx, event))
	})
	if err != nil {
		Fail(w, err)
		return
	}
	what := verb
	if name := event.Subject.Module; name != "" {
		what += " of " + name
	}
	_, _ = fmt.Fprintf(w, "%s requested as run %d; see workflow inspect %d\n", what, run, run)
}
