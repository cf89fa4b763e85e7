package debugapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// pauseRoute pauses the work that is named in the path and the form.
func (act actions) pauseRoute(w http.ResponseWriter, r *http.Request) {
	reason := reasonGiven(r)
	if reason == "" {
		Fail(w, BadRequest("a pause needs a reason, which is shown to others: add --reason TEXT"))
		return
	}
	act.changePause(w, r, "paused", func(target workflow.PauseTarget) error {
		return act.engine.Pause(lifecycle.Graph.Name, target, requester(r), reason)
	})
}

// resumeRoute resumes the work that is named in the path and the form.
func (act actions) resumeRoute(w http.ResponseWriter, r *http.Request) {
	act.changePause(w, r, "resumed", func(target workflow.PauseTarget) error {
		return act.engine.Resume(target, requester(r), reasonGiven(r))
	})
}

// changePause calls the function change for the work that is named in the path and the form. If
// change succeeds, the answer is the name of the work, followed by the text in done.
func (act actions) changePause(w http.ResponseWriter, r *http.Request, done string, change func(workflow.PauseTarget) error) {
	if act.engine == nil {
		Fail(w, errNotRunning)
		return
	}
	kind, name := r.PathValue("kind"), r.FormValue("name")
	var target workflow.PauseTarget
	err := act.db.View(func(tx *store.Tx) (err error) {
		target, err = pauseTarget(tx, kind, name)
		return err
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), commandRoom)
		defer cancel()
		err = act.db.WithRoom(ctx, func() error { return change(target) })
	}
	switch {
	case errors.Is(err, workflow.ErrPaused), errors.Is(err, workflow.ErrNotPaused):
		Fail(w, &routeError{http.StatusConflict, fmt.Errorf("%w; see addon-operator status", err)})
	case err != nil:
		Fail(w, err)
	default:
		_, _ = fmt.Fprintf(w, "%s %s\n", strings.TrimSpace(strings.Replace(kind, "all", "all work", 1)+" "+name), done)
	}
}

// pauseTarget returns the work with the given kind and name. pauseTarget returns an error if neither the work nor a
// pause of the work exists. A pause remains when the paused work is removed, for example when a hook is removed.
func pauseTarget(tx *store.Tx, kind, name string) (target workflow.PauseTarget, err error) {
	if kind != "all" && name == "" {
		return target, BadRequest("the name of the %s is missing", kind)
	}
	what := []string{kind, name}
	if kind == "all" {
		what = []string{kind}
	}
	for q, err := range store.QuarantinedItems(tx) {
		if err != nil {
			return target, err
		}
		if q.Paused != nil && slices.Equal(q.What(), what) {
			return workflow.PauseTarget{Queue: q.Queue, Subject: q.Subject}, nil
		}
	}
	switch kind {
	case "all":
		return target, nil
	case "queue":
		target.Queue = name
		return target, queueExists(tx, name)
	case "module":
		if target.Subject.Module = name; tx.Get(store.ModuleKey(name)) == nil {
			return target, notFound("no module is called %q; see addon-operator module list", name)
		}
		return target, nil
	case "hook":
		target.Subject, err = hookNamed(tx, name)
		return target, err
	default:
		return target, notFound("there is no kind of work %q: pause all, a queue, a module or a hook", kind)
	}
}

// queueExists returns an error if the queue has no tasks and no attached binding names the queue. The queue main always
// exists.
func queueExists(tx *store.Tx, name string) error {
	bound, err := boundQueues(tx)
	if err != nil || slices.Contains(bound, name) {
		return err
	}
	for queue, err := range store.AllQueues(tx) {
		if err != nil || queue == name {
			return err
		}
	}
	return notFound("there is no queue %q; see addon-operator queue list --show-empty", name)
}

// hookNamed returns the hook with the given name, which is MODULE/HOOK, or HOOK for a global hook.
func hookNamed(tx *store.Tx, name string) (s graph.Subject, err error) {
	for k := range tx.Range(store.At(store.Hooks)) {
		parts, err := k.Parts()
		if err != nil {
			return s, err
		}
		line := HookLine{Module: parts.Str(), Name: parts.Str()}
		if parts.Err() == nil && line.FullName() == name {
			return graph.Subject{Module: line.Module, Hook: line.Name}, nil
		}
	}
	return s, notFound("there is no hook %q; see addon-operator hook list", name)
}
