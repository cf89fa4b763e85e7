package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// A Set contains all metrics of one operator. It is safe for concurrent use. Create one with New.
type Set struct {
	// If Exemplars is true, [Set.Page] serves the OpenMetrics format, which includes the identifiers of traces, to
	// clients that accept this format.
	Exemplars bool

	registry *prometheus.Registry
	list     []metric

	moduleHook, globalHook hookMetrics
	client                 clientMetrics
	webhook                webhookMetrics
	moduleMetrics
	watchMetrics

	taskWait     *prometheus.CounterVec
	tasks        *prometheus.CounterVec
	loops        *prometheus.CounterVec
	damaged      *prometheus.CounterVec
	hookDropped  *prometheus.CounterVec
	hookSlow     *prometheus.GaugeVec
	queueAction  *prometheus.HistogramVec
	commit       prometheus.Observer
	commitWrites prometheus.Counter
}

// New returns a set whose metric names start with prefix. The metrics of the Go runtime and of the process have no
// prefix. The function state is called at each scrape. It must not call methods of the set.
func New(prefix string, state func() (State, error)) *Set {
	s := &Set{registry: prometheus.NewRegistry()}
	m := maker{prefix: prefix, into: s.registry, list: &s.list}
	s.moduleHook = m.hooks("module_hook", "a module hook", "module", "hook", "binding", "queue", "activation")
	s.globalHook = m.hooks("global_hook", "a global hook", "hook", "binding", "queue", "activation")
	s.client = m.client()
	s.webhook = m.webhooks()
	s.moduleMetrics = m.modules()
	s.watchMetrics = m.watches()
	s.taskWait = m.counters("task_wait_in_queue_seconds_total", "Time that tasks waited in queues before they started.", "module", "hook", "binding", "queue")
	s.tasks = m.counters("tasks_ended_total", "Records that were added to the history, by node and state. Each failed attempt is counted, too.", "node", "state")
	s.damaged = m.counters("damaged_records_total", "Records of the store that could not be read and were moved to another table.", "table")
	s.damaged.WithLabelValues("queues") // so that the counter is served with the value 0 before the first damaged task
	s.loops = m.counters("loops_total", "Runs that were delayed because a step had caused itself at least three times in a row.", "node", "module")
	s.hookDropped = m.counters("hook_metrics_dropped_total", "Operations in $METRICS_PATH that were dropped because of a conflict with the type or name of another metric, or because of a limit.", "module", "hook", "reason")
	s.hookSlow = m.gauges("hook_runs_slow", "Current runs of a hook that take much longer than all previous ones, of enabled scripts that take more than ten minutes, and waits of more than a minute for a Helm hook.", "module", "hook")
	s.queueAction = m.histogram("tasks_queue_action_duration_seconds", "Duration of adding tasks to the queue, and of transitions.", "queue_name", "queue_action")
	s.commit = m.histogram("store_commit_seconds", "Duration of commits to the store, including the sync to disk.").WithLabelValues()
	s.commitWrites = m.counter("store_writes_total", "Keys written by commits to the store.")
	s.registry.MustRegister(
		newScrape(m, state), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return s
}

// TaskWaited adds the time that a task waited in its queue before it started.
func (s *Set) TaskWaited(b Binding, wait time.Duration) {
	s.taskWait.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue).Add(max(0, wait.Seconds()))
}

// TaskEnded counts a record of the history: a task of node that has ended in the given state, or a failed attempt.
func (s *Set) TaskEnded(node, state string) { s.tasks.WithLabelValues(node, state).Inc() }

// RecordDamaged counts a record that could not be read.
func (s *Set) RecordDamaged(table string) { s.damaged.WithLabelValues(table).Inc() }

// Looped counts a run that was delayed because its steps cause each other in a loop.
func (s *Set) Looped(node, module string) { s.loops.WithLabelValues(node, module).Inc() }

// HookSlow records that a running hook takes much longer than in all previous runs, that an enabled script takes long,
// or that Helm waits long for a Helm hook. The caller must call ended() at the end of the run or of the wait. The
// argument module is empty for a global hook.
func (s *Set) HookSlow(module, hook string) (ended func()) {
	gauge := s.hookSlow.WithLabelValues(module, hook)
	gauge.Inc()
	return gauge.Dec
}

// HookMetricsDropped counts metric operations of a hook that were dropped. reason is one word.
func (s *Set) HookMetricsDropped(module, hook, reason string, operations int) {
	s.hookDropped.WithLabelValues(module, hook, reason).Add(float64(operations))
}
