package workflow

import (
	"cmp"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Main is the queue that triggers put their tasks in unless they name another.
const Main = "main"

// Parked is the queue of the last steps of runs that wait for failing modules, which are retried in
// lanes of their own. No hook can name this queue, because its name contains a space.
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

// homeQueue returns the queue that t belongs to, even if it is in a lane.
func homeQueue(t *store.Task) string {
	if t.HomeQueue != "" {
		return t.HomeQueue
	}
	return t.Queue
}

// queueOf returns the default queue of work about s, for which no binding names another queue.
func queueOf(s graph.Subject) string { return cmp.Or(s.Queue(), Main) }
