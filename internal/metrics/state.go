package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// A State contains the values of gauges that are read at each scrape.
type State struct {
	// Ticks is the number of ten-second intervals since the operator started.
	Ticks      float64
	StoreBytes int64
	// StoreFull is true while commits fail because the disk is full.
	StoreFull bool
	Queues    []Queue
	Bindings  []Seen
	Modules   []Module
	// Addons has the number of registered addons by scope. A scope is "cluster", or "ns/" and the name of a
	// namespace.
	Addons         map[string]int
	Configurations []Configuration
	// OrphanedModules are the enabled modules whose addon, or whose version of the addon, is no longer registered.
	OrphanedModules []string
	// Problems has the number of problems that the command "status" shows, by kind and module.
	Problems map[Problem]int
}

// A Problem is a key of [State.Problems]. Module is empty for a problem that belongs to no module.
type Problem struct{ Kind, Module string }

// A Configuration describes one addons configuration.
type Configuration struct{ Scope, Name, Phase string }

// A Queue describes one queue. If the queue has no tasks, all fields except Name are empty.
type Queue struct {
	Name   string
	Length int
	// Node, Module and Hook are the step and the subject of the head task.
	Node, Module, Hook string
	// State is the state of the head task: "running", "retrying" or "waiting".
	State string
}

// Seen is one attached binding of a hook, and the number of objects in the snapshot of the binding.
type Seen struct {
	Binding
	// Kubernetes is true for a kubernetes binding. Only such a binding has objects.
	Kubernetes bool
	Objects    int
}

// A Module is one module on disk.
type Module struct {
	Name    string
	Enabled bool
	// Maintenance is the maintenance mode of the module, or empty if it is not in maintenance.
	Maintenance string
}

// scrape is a collector that reads a State at each scrape.
type scrape struct {
	state                                 func() (State, error)
	ticks, store, length, head, tasks, up *prometheus.Desc
	full                                  *prometheus.Desc
	bindings, objects                     *prometheus.Desc
	moduleInfo, moduleEnabled             *prometheus.Desc
	moduleMaintenance                     *prometheus.Desc
	addons, configurations, orphaned      *prometheus.Desc
	problems                              *prometheus.Desc
}

func newScrape(m maker, state func() (State, error)) *scrape {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return m.desc(typeGauge, name, help, labels...)
	}
	return &scrape{
		state:             state,
		ticks:             m.desc(typeCounter, "live_ticks", "Incremented every ten seconds while the operator runs."),
		store:             desc("store_size_bytes", "Size of the store's file."),
		full:              desc("store_full", "Whether commits fail because the disk is full."),
		length:            desc("tasks_queue_length", "Tasks in the queue.", "queue"),
		head:              desc("tasks_queue_head_info", "The first task of the queue, which may be running.", "queue", "module", "task_type", "hook"),
		tasks:             desc("tasks", "Tasks in the queue by state. All tasks behind the head are waiting.", "queue", "state"),
		bindings:          desc("binding_count", "Attached bindings.", "module", "hook"),
		objects:           desc("kube_snapshot_objects", "Objects in the snapshot of a binding.", "module", "hook", "binding", "queue"),
		moduleInfo:        desc("mm_module_info", "Modules on disk.", "module", "enabled", "critical"),
		moduleEnabled:     desc("mm_module_enabled", "Whether the module is enabled.", "module", "version"),
		moduleMaintenance: desc("mm_module_maintenance", "Modules in maintenance.", "module", "state"),
		addons:            desc("addons_registered", "Registered addons by scope: cluster, or ns/ and a namespace.", "scope"),
		configurations:    desc("addons_config_phase", "Addons configurations and their phases.", "scope", "name", "phase"),
		orphaned:          desc("addon_module_orphaned", "Enabled modules whose addon or addon version is no longer registered.", "module"),
		problems:          desc("problems", "Problems that the command status shows, by kind.", "kind", "module"),
		up:                desc("store_readable", "Whether this scrape could read the store."),
	}
}

// Describe implements prometheus.Collector.
func (s *scrape) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.ticks, s.store, s.full, s.length, s.head, s.tasks, s.bindings, s.objects, s.moduleInfo, s.moduleEnabled, s.moduleMaintenance,
		s.addons, s.configurations, s.orphaned, s.problems, s.up,
	} {
		to <- d
	}
}

// Collect reads the state and sends its values as metrics.
func (s *scrape) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now, err := s.state()
	if err != nil {
		gauge(s.up, 0)
		return
	}
	gauge(s.up, 1)
	to <- prometheus.MustNewConstMetric(s.ticks, prometheus.CounterValue, now.Ticks)
	gauge(s.store, float64(now.StoreBytes))
	if now.StoreFull {
		gauge(s.full, 1)
	} else {
		gauge(s.full, 0)
	}
	for _, q := range now.Queues {
		gauge(s.length, float64(q.Length), q.Name)
		if q.Length == 0 {
			continue
		}
		gauge(s.head, 1, q.Name, q.Module, q.Node, q.Hook)
		behind := q.Length
		if q.State != waiting {
			gauge(s.tasks, 1, q.Name, q.State)
			behind--
		}
		gauge(s.tasks, float64(behind), q.Name, waiting)
	}
	for scope, n := range now.Addons {
		gauge(s.addons, float64(n), scope)
	}
	for _, c := range now.Configurations {
		gauge(s.configurations, 1, c.Scope, c.Name, c.Phase)
	}
	for _, name := range now.OrphanedModules {
		gauge(s.orphaned, 1, name)
	}
	for p, n := range now.Problems {
		gauge(s.problems, float64(n), p.Kind, p.Module)
	}
	s.collectModules(now, gauge)
}

// waiting is the value of the label "state" for tasks that have not started.
const waiting = "waiting"

func (s *scrape) collectModules(now State, gauge func(*prometheus.Desc, float64, ...string)) {
	count := map[[2]string]int{}
	for _, b := range now.Bindings {
		count[[2]string{b.Module, b.Hook}]++
		if b.Kubernetes {
			gauge(s.objects, float64(b.Objects), b.Module, b.Hook, b.Name, b.Queue)
		}
	}
	for hook, n := range count {
		gauge(s.bindings, float64(n), hook[0], hook[1])
	}
	for _, m := range now.Modules {
		word, on := "false", 0.0
		if m.Enabled {
			word, on = "true", 1
		}
		gauge(s.moduleInfo, 1, m.Name, word, "true") // the label "critical" is "true" for each module, because later modules wait for the module
		gauge(s.moduleEnabled, on, m.Name, "")
		if m.Maintenance != "" {
			gauge(s.moduleMaintenance, 1, m.Name, m.Maintenance)
		}
	}
}
