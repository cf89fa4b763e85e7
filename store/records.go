package store

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"addon-operator/workflow/graph"
)

// A Hook is the record of a global hook or of a hook of a module: its file, its parsed configuration,
// and the digest of the code from which they were read. Other packages encode File and Config.
type Hook struct {
	// Digest is the digest of the whole code of the module, such as its hooks, chart, values and schemas, or of the
	// global hooks and their schemas. It is empty if a new or changed Config was saved ahead of the run of the module,
	// because a conversion binding had to be attached.
	Digest string `json:"digest"`
	// Code is the digest of all hooks of the module without other code, or of all global hooks. It is empty in a record
	// that an earlier version wrote, and in the record of a new hook that was saved ahead of the run of the module.
	Code   string          `json:"code,omitempty"`
	File   json.RawMessage `json:"file"`
	Config json.RawMessage `json:"config"`
	// Longest is the approximate duration of the longest successful run with this Digest; zero if there is none.
	Longest time.Duration `json:"longest,omitempty"`
	// Awaits names the start bindings for which the hook's new code has not run yet. When the new code has run for all
	// of them, the values patches and enabled overrides that only the earlier code has written are deleted. Awaits is
	// empty if the earlier code has written none, or if the hook has no start bindings.
	Awaits []string `json:"awaits,omitempty"`
}

// HookKey returns the key of a hook's record. Module is empty for a global hook.
func HookKey(module, hook string) Key { return At(Hooks).Str(module).Str(hook) }

// HooksOf returns the prefix of the keys of the records of module's hooks.
func HooksOf(module string) Key { return At(Hooks).Str(module) }

// A BindingKind names the source that triggers the hook of a binding.
type BindingKind string

// Kinds of bindings that are stored while they are attached.
const (
	Kubernetes BindingKind = "kubernetes"
	Schedule   BindingKind = "schedule"
	Validating BindingKind = "kubernetesValidating"
	Mutating   BindingKind = "kubernetesMutating"
	Conversion BindingKind = "kubernetesCustomResourceConversion"
)

// A Binding is an attached binding. While the record of a binding exists, the operator watches the
// objects of the binding, follows its schedule, or serves its webhook.
type Binding struct {
	Kind BindingKind `json:"kind"`
	// Config is the configuration of the binding, as package hook encodes it.
	Config json.RawMessage `json:"config"`
	Queue  string          `json:"queue"`
	// AttachedIn is the epoch in which the binding was attached with this Config. In this epoch, the
	// first snapshot of the binding is the baseline for changes. In later epochs the cursor is the
	// baseline.
	AttachedIn uint64 `json:"attachedIn,omitempty"`
	// Baseline is the number that [Tx.NextID] returned in the transaction that attached the binding
	// with this Config. Tasks of the epoch AttachedIn with a greater number were created later, in
	// this transaction or after it.
	Baseline uint64 `json:"baseline,omitempty"`
	// Tasks with IDs before FormChanged have events for an earlier Config of a kubernetes binding,
	// which selected other objects or gave the events another content. If the ID of a task is also
	// before FilterChanged, its event has the result of another filter; if it is before KindChanged,
	// its event is about another kind of objects. An ID is zero if nothing has changed, and in a
	// record that an earlier version wrote.
	FormChanged   ID `json:"formChanged,omitzero"`
	FilterChanged ID `json:"filterChanged,omitzero"`
	KindChanged   ID `json:"kindChanged,omitzero"`
	// Detached is set while the module is being deleted. No more tasks are added for the binding, and
	// its webhook is not served, but its snapshot can still be read.
	Detached bool `json:"detached,omitempty"`
	// AttachedInStart is the start run in which the binding was last attached, after the onStartup
	// hooks. It is 0 if an older version attached the binding, or if a conversion binding was
	// attached before these hooks. It is FormerCode if the code of the hook has changed since then.
	AttachedInStart uint64 `json:"startedIn,omitempty"`
	// SyncedIn is the start run that had attached the binding when its Synchronization last succeeded or
	// was skipped. It is 0 if this has not happened since the binding was attached with this Config, or
	// attached again after it was detached. It is FormerCode if only earlier code of the hook has run
	// Synchronization.
	SyncedIn uint64 `json:"syncedIn,omitempty"`
}

// FormerCode is the number of no start run. In the record of a binding, it represents a start in
// which the hook of the binding had other code.
const FormerCode = math.MaxUint64

// After reports whether the task id was created after b's baseline, in the same epoch. After
// returns false for a task of an earlier epoch, which was pending before the restart.
func (b *Binding) After(id ID, epoch uint64) bool {
	return id.Epoch == epoch && b.AttachedIn == epoch && b.Baseline != 0 && id.N > b.Baseline
}

// BindingKey returns the key of an attached binding. The id is unique among the
// bindings of the hook.
func BindingKey(module, hook, id string) Key { return At(Bindings).Str(module).Str(hook).Str(id) }

// BindingsOf returns the prefix of the keys of the attached bindings of the module or, if a hook is given, of that
// hook only.
func BindingsOf(module string, hook ...string) Key {
	k := At(Bindings).Str(module)
	for _, h := range hook {
		k = k.Str(h)
	}
	return k
}

// LoadBindings returns the records of the bindings of a hook, by ID.
func LoadBindings(tx *Tx, module, hook string) (map[string]Binding, error) {
	bindings := map[string]Binding{}
	for k := range tx.Range(BindingsOf(module, hook)) {
		b, _, err := Load[Binding](tx, k)
		if err != nil {
			return nil, err
		}
		subject, err := ParseBindingKey(k)
		if err != nil {
			return nil, err
		}
		bindings[subject.Binding] = b
	}
	return bindings, nil
}

// OutdateBindings records in the kubernetes bindings and schedules of a hook that its code has changed since they were
// attached. So the hook runs neither for events and ticks nor for Synchronization until the module run has attached the
// bindings again. The module run attaches them after its onStartup hooks. If the hook ran before that, the new code
// would get events, Synchronizations and snapshots in the form of the earlier configuration, and an empty snapshot of a
// new binding. If the earlier code still runs a Synchronization, the new code must run Synchronization again.
func OutdateBindings(tx *Tx, module, hook string) error {
	return ChangeBindings(tx, module, hook, func(b *Binding) bool {
		if b.Kind != Kubernetes && b.Kind != Schedule {
			return false
		}
		b.AttachedInStart = FormerCode
		return true
	})
}

// ChangeBindings calls change for each attached binding of a hook, and saves the bindings for which change returns
// true.
func ChangeBindings(tx *Tx, module, hook string, change func(b *Binding) bool) error {
	attached, err := LoadBindings(tx, module, hook)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(attached)) {
		b := attached[id]
		if !change(&b) {
			continue
		}
		if err := Save(tx, BindingKey(module, hook, id), b); err != nil {
			return err
		}
	}
	return nil
}

// ParseBindingKey returns the module, the hook and the binding in the key of an attached binding.
func ParseBindingKey(k Key) (s graph.Subject, err error) {
	p, err := k.Parts()
	if err != nil {
		return graph.Subject{}, err
	}
	s = graph.Subject{Module: p.Str(), Hook: p.Str(), Binding: p.Str()}
	return s, p.Err()
}

// TickKey returns the key of the record with the time of the last tick of a schedule binding. Until the first tick, the
// record has the time when the binding was attached.
func TickKey(s graph.Subject) Key { return At(Ticks).Str(s.Module).Str(s.Hook).Str(s.Binding) }

// A ModuleState is the progress of a module in its lifecycle.
type ModuleState string

// States of a module.
const (
	// Off: the module is not installed, or its state is unknown.
	Off ModuleState = "off"
	// On: a module run has begun, or a conversion binding is attached ahead of the first run. The
	// module is installed when the run succeeds.
	On ModuleState = "on"
	// Deleting: step 6 has begun to delete the module. The bindings of the module are detached.
	Deleting ModuleState = "retiring"
	// Uninstalled: the release of the module is deleted, but not all of its afterDeleteHelm hooks have
	// run yet.
	Uninstalled ModuleState = "uninstalled"
)

// A Module is the record of a module: its progress in the lifecycle, and what the last discovery found.
type Module struct {
	State ModuleState `json:"state"`
	// Order is the number at the beginning of the name of the module's directory; a default if the name has no number.
	Order int `json:"order,omitempty"`
	// RanInStart is the start run in which a run of the module has last ended. It is 0 during the first
	// run in a start, during a run after the hooks have changed, and after the deletion of the module.
	RanInStart uint64 `json:"startedIn,omitempty"`
	// RanIn is the workflow run in which a run of the module has last ended, and RanAt is the time
	// of that end.
	RanIn uint64    `json:"ranIn,omitempty"`
	RanAt time.Time `json:"ranAt,omitzero"`
	// Enabled is the decision of the last discovery, and Why names the source of the decision.
	Enabled bool   `json:"enabled"`
	Why     string `json:"why,omitempty"`
	// DecidedIn is the workflow run in which Enabled or Why last changed, and DecidedAt is the time
	// of that change.
	DecidedIn uint64    `json:"decidedIn,omitempty"`
	DecidedAt time.Time `json:"decidedAt,omitzero"`
	// Broken is the reason why the module cannot be loaded; empty if it can. BrokenSince is the
	// time at which Broken became non-empty. SetBroken sets both.
	Broken      string    `json:"broken,omitempty"`
	BrokenSince time.Time `json:"brokenSince,omitzero"`
	// Missing is true if a discovery did not find the module, but kept its record. The record is kept until the release
	// of the module is deleted. It is also kept while the deletion of the release of any missing module is blocked or
	// postponed, because the directories of modules may be missing by mistake. While Missing is true, the events of the
	// module wait. If a directory of modules is empty, the discovery keeps all records, and does not set Missing.
	Missing bool `json:"missing,omitempty"`
	// Defined is the digest of the CRDs at their last installation, and DefinedIn is the start run of that
	// installation. Undefined is the reason why some of these CRDs could not be installed; empty if all
	// were installed. While Undefined is set, the module does not run.
	Defined   string `json:"defined,omitempty"`
	DefinedIn uint64 `json:"definedIn,omitempty"`
	Undefined string `json:"undefined,omitempty"`
	// FromAddon is true if the module was made from an addon when a discovery last found it. It is false in a record
	// that an earlier version wrote.
	FromAddon bool `json:"fromAddon,omitempty"`
}

// ModuleKey returns the key of a module's record.
func ModuleKey(name string) Key { return At(Modules).Str(name) }

// LoadModules returns the records of all modules by name.
func LoadModules(tx *Tx) (map[string]Module, error) {
	return loadModules(tx, func(error) bool { return false })
}

// LoadReadableModules is [LoadModules] without the modules whose records cannot be read.
func LoadReadableModules(tx *Tx) (map[string]Module, error) {
	return loadModules(tx, func(err error) bool { return errors.As(err, new(*RecordError)) })
}

// loadModules returns the records of all modules by name. If a record cannot be read, loadModules passes the error to
// the function omit. If omit returns true, loadModules leaves out the record; otherwise loadModules returns the error.
func loadModules(tx *Tx, omit func(error) bool) (map[string]Module, error) {
	known := map[string]Module{}
	for key := range tx.Range(At(Modules)) {
		m, _, err := Load[Module](tx, key)
		if omit(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := key.Parts()
		if err != nil {
			return nil, err
		}
		known[p.Str()] = m
	}
	return known, nil
}

// AnyBroken reports whether at least one of the named modules cannot be loaded, according to its
// record.
func AnyBroken(tx *Tx, names []string) (bool, error) {
	for _, name := range names {
		m, _, err := Load[Module](tx, ModuleKey(name))
		if err != nil || m.Broken != "" {
			return err == nil, err
		}
	}
	return false, nil
}

// A Release is the state of a module's release. It is recorded by each upgrade, and by each check that finds the
// release up to date, or leaves it as it is because of maintenance. If a hook deletes an object of the release, only
// Removed changes.
type Release struct {
	Checksum string `json:"checksum"`
	Revision int    `json:"revision"`
	// Changed is the time at which Revision last changed in the record.
	Changed time.Time `json:"changed,omitzero"`
	Objects []Object  `json:"objects,omitempty"`
	// Removed are the objects of the release that hooks of the module have deleted. The absence of these objects does
	// not make the release outdated. An upgrade empties the list, and a check removes the objects that exist again.
	Removed []Removed `json:"removed,omitempty"`
}

// A Removed is an object that a hook has deleted, and the time at which the deletion began.
type Removed struct {
	Object
	At time.Time `json:"at"`
}

// Lacks reports whether o is an object of r that a hook of the module has deleted.
func (r *Release) Lacks(o Object) bool {
	return slices.ContainsFunc(r.Removed, func(removed Removed) bool { return removed.Is(o) })
}

// An Object names one object of a release.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Is reports whether o and other name the same object, possibly with different API versions.
func (o Object) Is(other Object) bool { return o.Identity() == other.Identity() }

// Identity returns o with an APIVersion that has only the group. Two Objects name the same object
// if their identities are equal.
func (o Object) Identity() Object {
	o.APIVersion = o.group()
	return o
}

func (o Object) group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// ReleaseKey returns the key of the record of module's release.
func ReleaseKey(module string) Key { return At(Releases).Str(module) }

// An AppliedConfig is the ConfigMap content in force, in the encoding of package values.
type AppliedConfig struct {
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// OnlyHooks is true if the ConfigMap exists, and only hooks have written its content.
	OnlyHooks bool            `json:"onlyHooks,omitempty"`
	Config    json.RawMessage `json:"config"`
	At        time.Time       `json:"at"`
	// Changed has the time of the last change of each section.
	Changed map[string]time.Time `json:"changed,omitempty"`
}

// A RefusedConfig is content of the ConfigMap that is not in force because it
// is invalid.
type RefusedConfig struct {
	ResourceVersion string `json:"resourceVersion"`
	Error           string `json:"error"`
	// Fix is the command that edits the ConfigMap.
	Fix string    `json:"fix,omitempty"`
	At  time.Time `json:"at"`
	Run uint64    `json:"walk"`
}

// AppliedConfigKey returns the key of the ConfigMap content in force.
func AppliedConfigKey() Key { return At(ConfigMap).Str("applied") }

// RefusedConfigKey returns the key of the refused content of the ConfigMap.
func RefusedConfigKey() Key { return At(ConfigMap).Str("refused") }

// SavedKey returns the key of the record that has the values patches of a section.
func SavedKey(section string) Key { return At(Values).Str(section) }

// EnabledOverridesKey returns the key of the enabled overrides of hooks.
func EnabledOverridesKey() Key { return At(EnabledOverrides).Str("all") }

// FamilyKey returns the key of the record of a hook metric. The record has the properties that all
// series of the metric share, in the encoding of package series.
func FamilyKey(name string) Key { return Families().Str(name) }

// Families returns the prefix of the keys that FamilyKey returns.
func Families() Key { return At(Metrics).Str("family") }

// ShardKey returns the key of a shard. A shard has the series of one hook and group in a range of positions. The range
// begins at the position in the argument from, and ends where the range of the next shard begins. Package series
// encodes the shard and computes the positions. The group is empty for series that do not expire. If from is 0, the key
// is also the prefix of the keys of the hook's other shards in this group.
func ShardKey(group, module, hook string, from uint64) Key {
	k := ShardsOf(group).Str(module).Str(hook)
	if from == 0 {
		return k
	}
	return k.Uint(from)
}

// Shards returns the prefix of the keys that ShardKey returns.
func Shards() Key { return At(Metrics).Str("sheet") }

// ShardsOf returns the prefix of the keys of the shards of a group.
func ShardsOf(group string) Key { return Shards().Str(group) }

// ParseShardKey returns the hook and the first position in a key that ShardKey has returned.
func ParseShardKey(k Key) (s graph.Subject, from uint64, err error) {
	p, err := k.Parts()
	if err != nil {
		return s, 0, err
	}
	_, _ = p.Str(), p.Str() // "sheet", the group
	s.Module, s.Hook = p.Str(), p.Str()
	if p.More() {
		from = p.Uint()
	}
	return s, from, p.Err()
}

// A Startup records the current start of the operator and its last converge.
type Startup struct {
	// StartRun is the run of the current start, and Epoch is the epoch that began it.
	StartRun uint64 `json:"startWalk"`
	Epoch    uint64 `json:"epoch"`
	// Digest is the digest of the code with which the current start run began: the global hooks, the modules in
	// directories, the version of the operator, and some settings.
	Digest string `json:"digest,omitempty"`
	// ChartFiles is the digest of the files of charts with which the current start run began. If that start did not
	// compute the digest, ChartFiles is from the first later start that did.
	ChartFiles string `json:"chartFiles,omitempty"`
	// Converged is the run of the last completed converge, and ConvergedAt is the time at which
	// that converge ended.
	Converged   uint64    `json:"converged,omitempty"`
	ConvergedAt time.Time `json:"convergedAt,omitzero"`
	// ConvergedIn is the epoch in which the last completed converge ended.
	ConvergedIn uint64 `json:"convergedIn,omitempty"`
	// Enabled are the enabled modules in their order, from the last discovery.
	Enabled []string `json:"enabled,omitempty"`
	// ValuesFiles are the paths of the values files of the directories of modules, from the last discovery. The path of
	// a missing file is kept if its directory is empty, because the directory may not be mounted.
	ValuesFiles []string `json:"valuesFiles,omitempty"`
	// Cluster is the uid of the cluster's namespace kube-system.
	Cluster string `json:"cluster,omitempty"`
}

// HasConverged reports whether a converge of the current start, or a later one, has ended.
func (l Startup) HasConverged() bool { return l.Converged > 0 && l.Converged >= l.StartRun }

// StartupKey returns the key of the Startup record.
func StartupKey() Key { return At(Meta).Str("life") }

// LoadStartup returns the Startup record; the zero Startup if there is none.
func LoadStartup(tx *Tx) (Startup, error) {
	l, _, err := Load[Startup](tx, StartupKey())
	return l, err
}

// HasRunSince reports whether the module is on and a run of it has ended in the current start. l is
// the record of that start.
func (m *Module) HasRunSince(l Startup) bool {
	return m.State == On && m.RanInStart == l.StartRun
}

// An AllowedPurge is a person's permission for the next discovery to delete up to the given number of Releases without
// the safety check.
type AllowedPurge struct {
	Releases int       `json:"releases"`
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
}

// AllowedPurgeKey returns the key of the AllowedPurge record.
func AllowedPurgeKey() Key { return At(Meta).Str("allowed purge") }

// SetBroken sets Broken to the given reason why m cannot be loaded. If the reason is empty, m can
// be loaded, and SetBroken clears BrokenSince. If m could be loaded before and cannot be loaded any
// more, SetBroken sets BrokenSince to now.
func (m *Module) SetBroken(why string, now time.Time) {
	switch {
	case why == "":
		m.BrokenSince = time.Time{}
	case m.Broken == "":
		m.BrokenSince = now
	}
	m.Broken = why
}
