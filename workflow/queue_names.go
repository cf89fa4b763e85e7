package workflow

import (
	"cmp"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Main is the queue that triggers put their tasks in unless they name another.
const Main = "main"

// Parked is the queue that holds the last steps of runs whose other steps have ended, but for some that fail and
// are retried in lanes of their own. No hook can name it, as it contains a space.
const Parked = "after failing modules"

// parallelPrefix is the prefix of the lanes of parallel groups.
const parallelPrefix = "parallel-"

// laneOfModule is the prefix of the lanes in which the failing runs of modules are retried.
const laneOfModule = parallelPrefix + "module-"

// moduleLane returns the lane in which the failing run of a module is retried.
func moduleLane(module string) string { return laneOfModule + module }

// LaggingModules returns the modules whose failing runs are retried in lanes of their own.
func LaggingModules(tx *store.Tx) (modules []string, err error) {
	for queue, err := range store.AllQueues(tx) {
		if err != nil {
			return nil, err
		}
		if module, ok := strings.CutPrefix(queue, laneOfModule); ok {
			modules = append(modules, module)
		}
	}
	return modules, nil
}

// homeQueue returns the queue that t counts as a task of.
func homeQueue(t *store.Task) string {
	if t.HomeQueue != "" {
		return t.HomeQueue
	}
	return t.Queue
}

// queueOf returns the queue of work about s that no binding names another for.
func queueOf(s graph.Subject) string { return cmp.Or(s.Queue(), Main) }
