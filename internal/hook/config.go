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

// Scope says whose hook it is, and with that which bindings it may have.
type Scope string

// The two kinds of hooks.
const (
	Global Scope = "global"
	Module Scope = "module"
)

// The ordered bindings: in a config each holds the number that orders hooks in its step.
const (
	OnStartup        = "onStartup"
	BeforeAll        = "beforeAll"        // global hooks only
	AfterAll         = "afterAll"         // global hooks only
	BeforeHelm       = "beforeHelm"       // module hooks only
	AfterHelm        = "afterHelm"        // module hooks only
	BeforeDeleteHelm = "beforeDeleteHelm" // module hooks only
	AfterDeleteHelm  = "afterDeleteHelm"  // module hooks only
)

// MainQueue is the queue of a binding that names none.
const MainQueue = "main"

// The formats of configs.
const (
	V0 = "v0" // the legacy one: it has no configVersion
	V1 = "v1"
)

// Config is what a hook asks for, in one canonical form: defaults are filled in, names given, groups spread out. It is
// plain data and survives being stored as JSON. Only [Load] makes one that is checked.
type Config struct {
	// Version is the format it was written in, [V0] or [V1].
	Version string `json:"configVersion"`
	// Ordered holds the ordered bindings the hook has, by name, with their numbers. Hooks of one step run by ascending
	// number, those of equal number by name.
	Ordered    map[string]int      `json:"ordered,omitempty"`
	Schedule   []ScheduleBinding   `json:"schedule,omitempty"`
	Kubernetes []KubernetesBinding `json:"kubernetes,omitempty"`
	Validating []AdmissionBinding  `json:"validating,omitempty"`
	Mutating   []AdmissionBinding  `json:"mutating,omitempty"`
	Conversion []ConversionBinding `json:"conversion,omitempty"`
	// Settings is nil when the hook sets no limits.
	Settings *Settings `json:"settings,omitempty"`
}

// Settings limits how often and how long a hook runs.
type Settings struct {
	// ExecutionMinInterval is the time in which one run is allowed; zero is no limit.
	ExecutionMinInterval metav1.Duration `json:"executionMinInterval,omitzero"`
	// ExecutionBurst is how many runs may follow each other at once, at least 1.
	ExecutionBurst int `json:"executionBurst"`
	// Timeout is how long one run may take, where its binding sets no timeout; zero is the default of the runner.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// Legacy reports whether the hook was written for the format without configVersion: it is told of one thing a run, in
// elements of the old form.
func (c Config) Legacy() bool { return c.Version == V0 }

// Order returns the number of an ordered binding, and whether the hook has it.
func (c Config) Order(binding string) (int, bool) {
	order, ok := c.Ordered[binding]
	return order, ok
}

// SnapshotNames returns the name of every kubernetes binding once, in the order of the config: what the ordered
// bindings other than onStartup are given as snapshots.
func (c Config) SnapshotNames() []string {
	var names []string
	for _, binding := range c.Kubernetes {
		names = append(names, binding.Name)
	}
	return distinct(names)
}

// KubernetesNamed returns the index of the binding that a snapshot name stands for. Several bindings may share a name
// (unnamed ones do); the first of them is meant.
func (c Config) KubernetesNamed(name string) (int, bool) {
	i := slices.IndexFunc(c.Kubernetes, func(b KubernetesBinding) bool { return b.Name == name })
	return i, i >= 0
}

// Load reads the config of a hook, written in JSON or YAML by the addon-operator HOOKS document, or by an older one where
// it has no configVersion. The error joins everything that is wrong, each with the path of its field. A config of
// configVersion and settings alone is valid: the hook is switched off.
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

// version returns the format of the config, "" where that is not known.
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

// load reads everything but the version.
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
		root.fail("hook config: there is no binding beside configVersion; add one, or settings to switch the hook off")
	}
	checkSnapshots(config, root)
	spreadGroups(config)
}

// ordered reads the ordered bindings that the hook may have.
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

// without takes away the keys that exist but not in such a config, and says of each what is wrong with it.
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

// orderedBindings returns the ordered bindings a hook may have, and what is wrong with those of the other kind of hooks.
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

// leastOrder: onStartup has always taken negative numbers, the bindings added to it never have.
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
	s := &Settings{ExecutionBurst: o.child("executionBurst").integer(1, 1)}
	s.ExecutionMinInterval.Duration = o.child("executionMinInterval").duration()
	s.Timeout.Duration = o.child("timeout").duration()
	return s
}

// checkSnapshots finds names in includeSnapshotsFrom that no binding has, or that several have.
func checkSnapshots(c *Config, root object) {
	count := map[string]int{}
	for _, binding := range c.Kubernetes {
		count[binding.Name]++
	}
	check := func(key string, item int, names []string) {
		for i, name := range names {
			f := field{path: apifield.NewPath(key).Index(item).Child("includeSnapshotsFrom").Index(i), wrong: root.wrong}
			switch n := count[name]; {
			case name == "" || n == 1: // an empty name has been reported as such
			case n == 0:
				f.fail("there is no kubernetes binding named %q", tree.Excerpt(name))
			default:
				f.fail("%d kubernetes bindings are named %q; give them names of their own", n, tree.Excerpt(name))
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

// spreadGroups gives every binding of a group the snapshots of all kubernetes bindings in it, itself included.
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
