package hook

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apifield "k8s.io/apimachinery/pkg/util/validation/field"

	"addon-operator/internal/tree"
)

// Scope says whether a hook is a global hook or belongs to a module. It determines which bindings the hook may have.
type Scope string

// The scopes of hooks.
const (
	Global Scope = "global"
	Module Scope = "module"
)

// The ordered bindings. In a config, each has a number. If several hooks have the same binding, they run in the order
// of their numbers.
const (
	OnStartup        = "onStartup"
	BeforeAll        = "beforeAll"        // global hooks only
	AfterAll         = "afterAll"         // global hooks only
	BeforeHelm       = "beforeHelm"       // module hooks only
	AfterHelm        = "afterHelm"        // module hooks only
	BeforeDeleteHelm = "beforeDeleteHelm" // module hooks only
	AfterDeleteHelm  = "afterDeleteHelm"  // module hooks only
)

// MainQueue is the name of the queue that is used if a binding names no queue.
const MainQueue = "main"

// The formats of hook configs.
const (
	V0 = "v0" // the legacy format, without configVersion
	V1 = "v1"
)

// Config is the config of a hook in canonical form: defaults are filled in, each binding has a name, and each binding
// of a group lists the snapshots of the group. A Config can be stored as JSON. Only the configs that [Load] returns
// are validated.
type Config struct {
	// Version is the format in which the hook printed the config: [V0] or [V1].
	Version string `json:"configVersion"`
	// Ordered contains the number of each ordered binding that the hook has, by the name of the binding. Hooks with
	// the same binding run in ascending order of their numbers, or in the order of their names if the numbers are
	// equal.
	Ordered    map[string]int      `json:"ordered,omitempty"`
	Schedule   []ScheduleBinding   `json:"schedule,omitempty"`
	Kubernetes []KubernetesBinding `json:"kubernetes,omitempty"`
	Validating []AdmissionBinding  `json:"validating,omitempty"`
	Mutating   []AdmissionBinding  `json:"mutating,omitempty"`
	Conversion []ConversionBinding `json:"conversion,omitempty"`
	// Settings is nil if the config has no settings.
	Settings *Settings `json:"settings,omitempty"`
}

// Settings limits how often and how long a hook runs.
type Settings struct {
	// ExecutionMinInterval limits the rate of runs for events and schedules: when ExecutionBurst is used up, one such
	// run may start in each interval of this length. Runs for ordered bindings and for Synchronization also count, but
	// are not delayed. Runs for webhooks do not count. Zero means no limit.
	ExecutionMinInterval metav1.Duration `json:"executionMinInterval,omitzero"`
	// ExecutionBurst is the number of runs that may start at once before ExecutionMinInterval limits the rate. It is
	// at least 1.
	ExecutionBurst int `json:"executionBurst"`
	// Timeout is the maximum duration of a run, if the binding that causes the run sets no timeout. Zero means the
	// default of the runner.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// Legacy reports whether the config has no configVersion. A hook with such a config gets a binding context with one
// element in each run, in the legacy form.
func (c Config) Legacy() bool { return c.Version == V0 }

// Order returns the number of an ordered binding, such as beforeHelm, and whether the hook has this binding.
func (c Config) Order(binding string) (int, bool) {
	order, ok := c.Ordered[binding]
	return order, ok
}

// SnapshotNames returns the names of the kubernetes bindings without duplicates, in the order of the config. In a run
// for an ordered binding except onStartup, the hook gets the snapshots of these bindings, unless its config is legacy.
func (c Config) SnapshotNames() []string {
	var names []string
	for _, binding := range c.Kubernetes {
		names = append(names, binding.Name)
	}
	return distinct(names)
}

// KubernetesNamed returns the index of the kubernetes binding called name, and whether there is one. If several
// bindings have this name, for example the default name, it returns the index of the first.
func (c Config) KubernetesNamed(name string) (int, bool) {
	i := slices.IndexFunc(c.Kubernetes, func(b KubernetesBinding) bool { return b.Name == name })
	return i, i >= 0
}

// Load parses a hook config, which is JSON or YAML. A config with a configVersion must have the format that the
// document HOOKS of flant/addon-operator describes. A config without it must have the legacy format. The error joins
// all problems, each with the path of its field. A config that has only configVersion and settings is valid, and means
// that the hook never runs.
func Load(scope Scope, data []byte) (Config, error) {
	printed, err := readTree(data)
	if err != nil {
		return Config{}, fmt.Errorf("hook config: %w", err)
	}
	entries, ok := printed.(map[string]any)
	if !ok {
		return Config{}, fmt.Errorf("hook config: must be a map with configVersion and bindings, not %s", tree.Kind(printed))
	}
	var wrong problems
	root := object{field: field{wrong: &wrong}, entries: entries}
	config := Config{Version: root.version()}
	switch config.Version {
	case V0:
		root.loadLegacy(scope, &config)
	case V1:
		root.load(scope, &config)
	}
	if len(wrong) > 0 {
		return Config{}, errors.Join(wrong...)
	}
	return config, nil
}

// version returns the format of the config, V0 or V1. If configVersion is invalid, version reports a problem and
// returns "".
func (o object) version() string {
	f := o.child("configVersion")
	if !f.given {
		return V0
	}
	version, ok := f.value.(string)
	switch {
	case !ok:
		f.fail("must be the string v1, not %s", tree.Kind(f.value))
		return ""
	case version != V1:
		o.fail("'configVersion' value '%s' is unsupported, write v1", tree.Excerpt(version))
		return ""
	}
	return version
}

// load reads a config in the format V1, except configVersion.
func (o object) load(scope Scope, config *Config) {
	own, misplaced := orderedBindings(scope)
	misplaced["onKubernetesEvent"] = "belongs to configs without configVersion; write kubernetes"
	o = o.without(misplaced)
	known := append([]string{"configVersion", "settings", "schedule", "kubernetes"}, own...)
	known = append(known, "kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion")
	root := field{value: o.entries, given: true, wrong: o.wrong}.object(known...)

	root.ordered(own, config)
	for _, item := range root.child("kubernetes").list(1) {
		config.Kubernetes = append(config.Kubernetes, readKubernetesBinding(item))
	}
	for _, item := range root.child("schedule").list(1) {
		config.Schedule = append(config.Schedule, readScheduleBinding(item))
	}
	root.webhooks(config)
	config.Settings = readSettings(root.child("settings"))
	if len(root.entries) == 1 && len(*root.wrong) == 0 {
		root.fail("hook config: it has only configVersion; add a binding, or settings to switch the hook off")
	}
	checkSnapshots(config, root)
	spreadGroups(config)
}

// ordered reads the ordered bindings of the config. The argument own contains the names of the ordered bindings that
// the hook may have.
func (o object) ordered(own []string, config *Config) {
	for _, binding := range own {
		f := o.child(binding)
		if !f.given {
			continue
		}
		if config.Ordered == nil {
			config.Ordered = map[string]int{}
		}
		config.Ordered[binding] = f.integer(leastOrder(binding), 0)
	}
}

// without returns a copy of o that lacks the keys in misplaced. This map has one error message for each key. The
// message of each removed key is reported as a problem.
func (o object) without(misplaced map[string]string) object {
	o.entries = maps.Clone(o.entries)
	for _, key := range slices.Sorted(maps.Keys(o.entries)) {
		if what, found := misplaced[key]; found {
			o.child(key).fail("%s", what)
			delete(o.entries, key)
		}
	}
	return o
}

// orderedBindings returns the ordered bindings that hooks of a scope may have. The result misplaced has the ordered
// bindings that only hooks of the other scope may have, each with the problem to report.
func orderedBindings(scope Scope) (own []string, misplaced map[string]string) {
	own, foreign := []string{BeforeHelm, AfterHelm, BeforeDeleteHelm, AfterDeleteHelm}, []string{BeforeAll, AfterAll}
	if scope == Global {
		own, foreign = foreign, own
	}
	misplaced = map[string]string{}
	for _, binding := range foreign {
		misplaced[binding] = fmt.Sprintf("a %s hook cannot have this binding", scope)
	}
	return append([]string{OnStartup}, own...), misplaced
}

// leastOrder returns the least number that an ordered binding may have. Only onStartup may have negative numbers.
func leastOrder(binding string) int {
	if binding == OnStartup {
		return -(1 << 31)
	}
	return 0
}

func readSettings(f field) *Settings {
	if !f.given {
		return nil
	}
	o := f.object("executionMinInterval", "executionBurst", "timeout")
	// Zero means the default, as in shell-operator.
	s := &Settings{ExecutionBurst: max(1, o.child("executionBurst").integer(0, 1))}
	s.ExecutionMinInterval.Duration = o.child("executionMinInterval").duration()
	s.Timeout.Duration = o.child("timeout").duration()
	return s
}

// checkSnapshots reports each name in an includeSnapshotsFrom that does not belong to exactly one kubernetes binding.
func checkSnapshots(c *Config, root object) {
	count := map[string]int{}
	for _, binding := range c.Kubernetes {
		count[binding.Name]++
	}
	check := func(key string, item int, names []string) {
		for i, name := range names {
			f := field{path: apifield.NewPath(key).Index(item).Child("includeSnapshotsFrom").Index(i), wrong: root.wrong}
			switch n := count[name]; {
			case name == "" || n == 1: // an empty name was reported when the list was read
			case n == 0:
				f.fail("there is no kubernetes binding named %q", tree.Excerpt(name))
			default:
				f.fail("%d kubernetes bindings are named %q; give each a different name", n, tree.Excerpt(name))
			}
		}
	}
	for i, binding := range c.Kubernetes {
		check("kubernetes", i, binding.IncludeSnapshotsFrom)
	}
	for i, binding := range c.Schedule {
		check("schedule", i, binding.IncludeSnapshotsFrom)
	}
	askedSnapshots(c, func(key string, item int, _ string, names *[]string) { check(key, item, *names) })
}

// spreadGroups adds the names of all kubernetes bindings of a group to IncludeSnapshotsFrom of each binding of the
// group.
func spreadGroups(c *Config) {
	groups := map[string][]string{}
	for _, binding := range c.Kubernetes {
		if binding.Group != "" {
			groups[binding.Group] = append(groups[binding.Group], binding.Name)
		}
	}
	extend := func(names []string, group string) []string {
		return distinct(append(names, groups[group]...))
	}
	for i := range c.Kubernetes {
		b := &c.Kubernetes[i]
		b.IncludeSnapshotsFrom = extend(b.IncludeSnapshotsFrom, b.Group)
	}
	for i := range c.Schedule {
		b := &c.Schedule[i]
		b.IncludeSnapshotsFrom = extend(b.IncludeSnapshotsFrom, b.Group)
	}
	askedSnapshots(c, func(_ string, _ int, group string, names *[]string) { *names = extend(*names, group) })
}
