package debugapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"addon-operator/store"
	"addon-operator/workflow"
)

// actions serves the routes that change the state of the operator or objects of the cluster. These routes fail if no
// operator runs.
type actions struct {
	db       *store.DB
	engine   *workflow.Engine // nil if no operator runs
	withdraw func(context.Context) (deleted []string, namespace string, err error)
	params   *Params // nil if no operator runs
}

// retryRoute retries a failed task at once.
func (act actions) retryRoute(w http.ResponseWriter, r *http.Request) {
	act.changeTask(w, r, "is tried again", act.withRoom(func(id store.ID) error {
		return act.engine.Retry(id, requester(r), reasonGiven(r))
	}))
}

// releaseRoute ends the quarantine of a task.
func (act actions) releaseRoute(w http.ResponseWriter, r *http.Request) {
	act.changeTask(w, r, "is released", act.withRoom(func(id store.ID) error {
		return act.engine.Release(id, requester(r), reasonGiven(r))
	}))
}

// skipRoute ends the failed or current step of a task as if the step had succeeded and had reported no facts.
func (act actions) skipRoute(w http.ResponseWriter, r *http.Request) {
	reason := reasonGiven(r)
	if reason == "" {
		Fail(w, BadRequest("a skip needs a reason, which is stored in the history: add --reason TEXT"))
		return
	}
	act.changeTask(w, r, "is skipped", act.withRoom(func(id store.ID) error { return act.engine.Skip(id, requester(r), reason) }))
}

// cancelRoute cancels a running task.
func (act actions) cancelRoute(w http.ResponseWriter, r *http.Request) {
	why := workflow.Cancellation{
		By: requester(r), Reason: reasonGiven(r), Skip: r.FormValue("skip") == "true",
	}
	if why.Skip && why.Reason == "" {
		Fail(w, BadRequest("a skip needs a reason, which is stored in the history: add --reason TEXT"))
		return
	}
	act.changeTask(w, r, "is canceled", func(ctx context.Context, id store.ID) error {
		return act.engine.Cancel(ctx, id, why)
	})
}

// withRoom returns a function that calls change, and repeats the call while the disk is full.
func (act actions) withRoom(change func(store.ID) error) func(context.Context, store.ID) error {
	return func(ctx context.Context, id store.ID) error {
		return act.db.WithRoom(ctx, func() error { return change(id) })
	}
}

// changeTask calls change for the task that the path names. See [workflow.Engine.Find] for the names of tasks.
func (act actions) changeTask(w http.ResponseWriter, r *http.Request, done string, change func(context.Context, store.ID) error) {
	if act.engine == nil {
		Fail(w, &routeError{http.StatusConflict, errors.New("tasks are changed by a running operator only: start it, and leave --store out")})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandRoom)
	defer cancel()
	id, err := act.engine.Find(r.PathValue("task"))
	if err == nil {
		err = change(ctx, id)
	}
	if err != nil {
		Fail(w, changeError(id, err))
		return
	}
	_, _ = fmt.Fprintf(w, "task %s %s\n", id, done)
}

// changeError adds an HTTP status to err, which is the error of a change of the task with this ID. To most errors, it
// also adds a text that says what a person can do. If changeError does not know an error, it returns the error
// unchanged.
func changeError(id store.ID, err error) error {
	if errors.Is(err, workflow.ErrNoTask) {
		return notFound("%w; see addon-operator queue list", err)
	}
	for _, c := range []struct {
		is   error
		todo string
	}{
		{workflow.ErrAmbiguous, ""},
		{workflow.ErrHeld, ""},
		{workflow.ErrRuns, "; wait for its end, or cancel it"},
		{workflow.ErrWaitsForItems, "; skip the items instead"},
		{workflow.ErrNotRunning, "; skip it or, if it has failed, retry it"},
		{workflow.ErrNotFailed, "; see addon-operator why " + id.String()},
		{workflow.ErrQuarantined, "; release or skip it"},
		{workflow.ErrNotQuarantined, "; skip it or, if it has failed, retry it"},
	} {
		if errors.Is(err, c.is) {
			return &routeError{http.StatusConflict, fmt.Errorf("%w%s", err, c.todo)}
		}
	}
	return err
}
