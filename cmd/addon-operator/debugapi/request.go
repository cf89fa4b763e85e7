package debugapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// commandRoom is the maximum time that a command waits for space on the disk of the store.
const commandRoom = 10 * time.Second

// errNotRunning is the error of a request that needs a running operator, if no operator runs.
var errNotRunning = &routeError{http.StatusConflict, errors.New("no operator runs: start it, and leave --store out")}

// reloadRoute requests a converge. With allow-purge=N in the form, the discovery of this converge may
// delete up to N releases without the safety check.
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
	act.request(w, r, "reload", func(tx *store.Tx) (workflow.Event, error) {
		if allowed == 0 {
			return event, nil
		}
		return event, store.Save(tx, store.AllowedPurgeKey(), store.AllowedPurge{Releases: allowed, By: by, At: tx.Now()})
	})
}

// carriedOut records in the store that the command in the argument verb was executed for the request r. If the store
// cannot record the command, the answer says so.
func (act actions) carriedOut(w http.ResponseWriter, r *http.Request, verb, what string) {
	err := act.db.Update(func(tx *store.Tx) error {
		return store.AddAction(tx, store.Action{Verb: verb, What: what, By: requester(r), Reason: reasonGiven(r)})
	})
	if err != nil {
		_, _ = fmt.Fprintf(w, "the timeline does not show this command: %v\n", err)
	}
}

// requester returns the name of the person who sent the request r, or "somebody" if r does not name
// a person.
func requester(r *http.Request) string { return cmp.Or(r.FormValue("by"), "somebody") }

// reasonGiven returns the reason in the form of the request r; empty if there is none.
func reasonGiven(r *http.Request) string { return strings.TrimSpace(r.FormValue("reason")) }

// moduleRunRoute requests a run of one module.
func (act actions) moduleRunRoute(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("module")
	event := workflow.Event{On: lifecycle.OnRunRequest, Subject: graph.Subject{Module: name}}
	act.request(w, r, "module run", func(tx *store.Tx) (workflow.Event, error) { return event, canRun(tx, name) })
}

// hookRunRoute requests a tick of a schedule binding.
func (act actions) hookRunRoute(w http.ResponseWriter, r *http.Request) {
	name, binding := r.FormValue("hook"), r.FormValue("binding")
	act.request(w, r, "hook run", func(tx *store.Tx) (ev workflow.Event, err error) {
		subject, err := hookNamed(tx, name)
		if err != nil {
			return ev, err
		}
		schedules, err := attachedSchedules(tx, store.BindingsOf(subject.Module, subject.Hook), true)
		if err != nil {
			return ev, err
		}
		if subject.Binding, err = scheduleOf(name, schedules[subject], binding); err != nil {
			return ev, err
		}
		ev, _, err = triggers.RequestedTick(tx, subject) // the binding is attached, because scheduleOf found it in this transaction
		return ev, err
	})
}

// scheduleOf returns name if the hook has a schedule binding of this name. If name is empty, scheduleOf returns the
// name of the only schedule binding of the hook.
func scheduleOf(hook string, schedules []ScheduleLine, name string) (string, error) {
	var names []string
	for _, s := range schedules {
		names = append(names, strconv.Quote(s.Binding))
		if s.Binding == name || name == "" && len(schedules) == 1 {
			return s.Binding, nil
		}
	}
	slices.Sort(names)
	switch {
	case len(schedules) == 0:
		return "", &routeError{http.StatusConflict, fmt.Errorf("hook %s has no schedule that is attached, so it is not run: its module "+
			"is off or has not started yet, or the hook has no schedule; see addon-operator hook list", hook)}
	case name == "":
		return "", BadRequest("hook %s has several schedules, name one: %s", hook, strings.Join(names, ", "))
	default:
		return "", notFound("hook %s has no schedule %q, only %s", hook, name, strings.Join(names, ", "))
	}
}

// canRun returns an error if a requested run of the module would do nothing.
func canRun(tx *store.Tx, name string) error {
	m, known, err := store.Load[store.Module](tx, store.ModuleKey(name))
	switch {
	case err != nil:
		return err
	case !known:
		return notFound("no module is called %q; see addon-operator module list, and run addon-operator reload if its directory is new", name)
	case !m.Enabled:
		return &routeError{http.StatusConflict, fmt.Errorf("module %s is not enabled (%s), so it is not run", name, m.Why)}
	case m.Undefined != "":
		return &routeError{http.StatusConflict, fmt.Errorf("module %s is not run, because its CRDs cannot be installed: %s; correct the cause, and run "+
			"addon-operator reload, which installs them", name, m.Undefined)}
	}
	return nil
}

// request raises the event that the function prepare returns. In the same transaction, request records the command in
// the argument verb, with the person who sent the request r. The answer has the number of the run, and the pause or
// quarantine that keeps the run from starting, if there is one. The event is durable when the answer is sent.
func (act actions) request(w http.ResponseWriter, r *http.Request, verb string, prepare func(*store.Tx) (workflow.Event, error)) {
	if act.engine == nil {
		Fail(w, errNotRunning)
		return
	}
	var run uint64
	var what string
	var held *store.QuarantinedItem
	ctx, cancel := context.WithTimeout(r.Context(), commandRoom)
	defer cancel()
	err := act.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
		event, err := prepare(tx)
		if err != nil {
			return err
		}
		event.Cause.By, what = requester(r), event.Subject.String()
		if run, err = store.NextRun(tx); err != nil {
			return err
		}
		action := store.Action{Verb: verb, What: what, Subject: event.Subject, By: event.Cause.By, Reason: reasonGiven(r), Run: run}
		held, err = heldBy(tx, event)
		return errors.Join(err, store.AddAction(tx, action), act.engine.Raise(tx, event))
	})
	if err != nil {
		Fail(w, err)
		return
	}
	if what != "" {
		verb += " of " + what
	}
	_, _ = fmt.Fprintf(w, "%s requested as run %d; see addon-operator workflow inspect %d\n", verb, run, run)
	if held != nil {
		_, _ = fmt.Fprintf(w, "it cannot start now: %s\n", held.Reason().Detail)
	}
}

// heldBy returns the item in quarantine, or the pause, that keeps the work of the event from starting; nil if there is
// none.
func heldBy(tx *store.Tx, event workflow.Event) (*store.QuarantinedItem, error) {
	if q, err := store.QuarantineOf(tx, lifecycle.Graph.Name, "", event.Subject); q != nil || err != nil {
		return q, err
	}
	return store.PauseOfQueue(tx, cmp.Or(event.Queue, workflow.Main))
}
