package workflow

import (
	"cmp"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Main is the queue to which triggers add their tasks, unless the binding names another queue or the task is about a
// configuration.
const Main = "main"

// Parked is the queue in which the last step of a run waits for failing modules. A hook that names this queue is
// rejected.
const Parked = "after failing modules"

// parallelPrefix is the prefix of parallel queues, in which the items of parallel groups run.
const parallelPrefix = "parallel-"

// retryPrefix is the prefix of retry queues, in which the failing runs of modules are retried.
const retryPrefix = parallelPrefix + "module-"

// retryQueue returns the queue in which the failing run of a module is retried.
func retryQueue(module string) string { return retryPrefix + module }

// LaggingModules returns the modules whose failing runs are in retry queues.
func LaggingModules(tx *store.Tx) (modules []string, err error) {
	for queue, err := range store.AllQueues(tx) {
		if err != nil {
			return nil, err
		}
		if module, ok := strings.CutPrefix(queue, retryPrefix); ok {
			modules = append(modules, module)
		}
	}
	return modules, nil
}

// homeQueue returns the queue of t or, if t is in a parallel queue, the queue in which t would run otherwise.
func homeQueue(t *store.Task) string {
	if t.HomeQueue != "" {
		return t.HomeQueue
	}
	return t.Queue
}

// queueOf returns the queue of work about s, if no binding names another queue.
func queueOf(s graph.Subject) string { return cmp.Or(s.Queue(), Main) }
