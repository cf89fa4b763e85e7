package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// A status reports the progress of the operator's start. A status reads the store, so that it also
// knows what an earlier process has done.
type status struct {
	db         *store.DB
	leadership *leadership
	// begun is true once the store contains the tasks of this start.
	begun atomic.Bool
	// converged is true after the first converge of this process.
	converged atomic.Bool
}

// startup returns the record of starts and converges, and the number of pending tasks that are part
// of a converge.
func (s *status) startup() (startup store.Startup, tasks int, err error) {
	begun := s.begun.Load() // read before the store: if begun is true, the store has the tasks of this start
	err = s.db.View(func(tx *store.Tx) (err error) {
		if startup, _, err = store.Load[store.Startup](tx, store.StartupKey()); err != nil {
			return err
		}
		tasks, err = debugapi.ConvergeTasks(tx)
		return err
	})
	if !begun {
		tasks++ // counts the first task of the start, which is not stored yet
	}
	return startup, tasks, err
}

// readyz reports whether the operator is ready. The operator is ready if it is not a standby, no
// module is pending, and a converge has ended in this epoch. If this start has nothing to converge,
// the converge of an earlier epoch is sufficient. If the operator is not ready, the response says
// why, and names the pending modules.
func (s *status) readyz(w http.ResponseWriter, _ *http.Request) {
	if waits := s.leadership.standby(); waits != "" {
		http.Error(w, "Standby: "+waits, http.StatusServiceUnavailable)
		return
	}
	started, pending, err := s.readiness()
	text := "Startup converge in progress"
	if started {
		text = "Startup converge done"
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case len(pending) > 0:
		http.Error(w, text+", pending modules: "+strings.Join(pending, ", "), http.StatusInternalServerError)
	case !started:
		http.Error(w, text, http.StatusInternalServerError)
	default:
		_, _ = w.Write([]byte(text + ".\n"))
	}
}

// readiness reads the state for readyz. readiness reads the tasks only if the result depends on
// them, because scripts that wait for the end of a converge call readyz many times a second.
func (s *status) readiness() (started bool, pending []string, err error) {
	begun := s.begun.Load() // read before the store: if begun is true, the store has the tasks of this start
	err = s.db.View(func(tx *store.Tx) error {
		startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
		if err != nil {
			return err
		}
		if started = s.converged.Load() || startup.ConvergedIn == s.db.Epoch(); !started && begun && startup.HasConverged() {
			tasks, err := debugapi.ConvergeTasks(tx)
			if err != nil {
				return err
			}
			started = tasks == 0
		}
		pending, err = pendingModules(tx)
		return err
	})
	return started, pending, err
}

// pendingModules returns the modules whose next run is deferred because their hooks change values
// at each run. pendingModules also returns the modules whose failing run is retried in a separate
// queue.
func pendingModules(tx *store.Tx) (names []string, err error) {
	for t, err := range store.DeferredTasks(tx) {
		if err != nil {
			return nil, err
		}
		if t.Node == string(lifecycle.ModuleRun) {
			names = append(names, t.Subject.Module)
		}
	}
	lagging, err := workflow.LaggingModules(tx)
	if err != nil {
		return nil, err
	}
	names = append(names, lagging...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// started reports whether the converge of the start has ended. If the start has no work, no task is
// pending, and the result is true too.
func (s *status) started(startup store.Startup, tasks int) bool {
	return startup.ConvergedIn == s.db.Epoch() || s.converged.Load() ||
		tasks == 0 && startup.HasConverged()
}

// convergeStatus reports the state of the converge in the format of flant/addon-operator.
func (s *status) convergeStatus(w http.ResponseWriter, r *http.Request) {
	startup, tasks, err := s.startup()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	type line struct {
		key   string
		count int
	}
	var lines []line
	switch {
	case s.started(startup, tasks):
		lines = append(lines, line{"STARTUP_CONVERGE_DONE", 0})
		if tasks > 0 {
			lines = append(lines, line{"CONVERGE_IN_PROGRESS", tasks})
		} else {
			lines = append(lines, line{"CONVERGE_WAIT_TASK", 0})
		}
	case tasks > 0:
		lines = append(lines, line{"STARTUP_CONVERGE_IN_PROGRESS", tasks})
	default:
		lines = append(lines, line{"STARTUP_CONVERGE_NOT_STARTED", 0})
	}
	if r.URL.Query().Get("output") == "json" {
		out := map[string]any{
			"STARTUP_CONVERGE_NOT_STARTED": false, "STARTUP_CONVERGE_IN_PROGRESS": nil, "STARTUP_CONVERGE_DONE": false,
			"CONVERGE_IN_PROGRESS": nil, "CONVERGE_WAIT_TASK": false,
		}
		for _, l := range lines {
			out[l.key] = true
			if l.count > 0 {
				out[l.key] = l.count
			}
		}
		if err := (debugapi.Page{Data: out}).Write(w, "json"); err != nil {
			debugapi.Fail(w, err)
		}
		return
	}
	for _, l := range lines {
		if l.count > 0 {
			_, _ = fmt.Fprintf(w, "%s: %d tasks\n", l.key, l.count)
		} else {
			_, _ = fmt.Fprintln(w, l.key)
		}
	}
}
