package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/internal/crd"
	"addon-operator/internal/helm"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/internal/operation"
	"addon-operator/internal/schema"
	"addon-operator/internal/values"
	"addon-operator/store"
)

// A Site is where the steps work: the directories, the cluster, the internal packages.
// Its exported fields are set before the first step runs and do not change.
type Site struct {
	DB        *store.DB
	Log       zerolog.Logger
	Hooks     *hook.Runner
	Helm      *helm.Client
	CRDs      *crd.Installer
	Kube      *kube.Client
	Config    *kube.ConfigMap
	Snapshots Snapshots
	// Objects does what hooks want done with objects.
	Objects *operation.Executor

	ModulesDirs     []string
	AddonModulesDir string // of modules made from addons; "" for none
	// AllAddonsAsModules makes the addons of every ClusterAddonsConfiguration usable as modules,
	// not only of those marked so.
	AllAddonsAsModules bool
	GlobalHooksDir     string
	UnnumberedOrder    int
	// StrictValues makes a values.yaml that is missing an error.
	StrictValues bool
	// ParallelModules is how many modules of equal number are run at once.
	ParallelModules int
	// CRDFilters are the beginnings of names of files in crds that are passed over.
	CRDFilters []string
	Namespace  string
	// IgnoreRelease is a release that is never purged: the operator's own.
	IgnoreRelease string
	// Pod is the operator's own pod, if it runs in one. The release it belongs to
	// is never purged either.
	Pod string
	// AllowPurge is how many releases may be purged at once however large their
	// part; 0 means no more than half.
	AllowPurge int
	// Withdraw removes waiting events of a hook as part of a transaction: the engine's.
	Withdraw func(tx *store.Tx, queue string, s store.Subject, why string, match func(*store.Task) bool) error
	// Attached is called after each commit that attached or detached bindings.
	Attached func()
	// Applied is called after each commit that put content of the ConfigMap in
	// force.
	Applied func()
	// MetricsPrefix stands for {PREFIX} in the names of metrics that hooks make.
	MetricsPrefix string
	// UngroupedExpire has metrics without a group expire at each run of their hook
	// that writes any.
	UngroupedExpire bool
	// MetricsDropped is told of metric operations that did not count; nil is
	// silence.
	MetricsDropped func(Dropped)
	// Converged is called after each commit with which a converge came to its end.
	Converged func()
	// Ran is told of each run of a hook; nil is silence.
	Ran func(Report)
	// Retired is called after each commit with which the deletion of a module began that the
	// ConfigMap switches off; nil is silence.
	Retired func(module string)
	// Slow is told of a run of a hook that takes far longer than any before, and what it returns is
	// called at the end of the run; nil is silence.
	Slow func(SlowRun) (ended func())
	// HelmBegins is told that an operation on a module's chart begins, and what it
	// returns is called at its end; nil is silence.
	HelmBegins func(module, operation string) (ends func())
	// ModuleRan is called after each commit with which a run of module came to
	// its end.
	ModuleRan func(module string)
	// BlockedDeletion is told of releases that were not deleted because of a doubt.
	BlockedDeletion func(releases []string, why string)
	// Refused is told of content of the ConfigMap that is invalid, at each attempt
	// to apply it.
	Refused func(resourceVersion, why string)
	// Installed is called after each commit that changed what a release consists
	// of, or with which work at one came to its end.
	Installed func(module string)

	// Recheck is called after each commit that may have made or mended a problem that [Site.Survey] finds;
	// nil is silence.
	Recheck func()

	digests     module.Digests
	discovered  atomic.Bool // a discovery of this epoch has read the module directories
	schemaFiles schema.Cache
	renderings  renderings

	writing sync.Mutex // held while the directory of modules made from addons is written

	mu         sync.RWMutex
	disk       module.Set               // guarded by mu
	scans      int                      // how often it was scanned; guarded by mu
	schemas    map[string]*schema.Set   // those of disk, by the key of the section; guarded by mu
	noGlobal   error                    // why the global schemas cannot be used; guarded by mu
	config     values.Config            // the ConfigMap content decoded last; guarded by mu
	configRaw  []byte                   // the record it was decoded from; guarded by mu
	hookOutput map[string]bool          // warnings that were logged; guarded by mu
	ranWith    map[string]string        // by module, the digest of its directory when its last run ended; guarded by mu
	told       map[[2]string]store.Hook // what hooks said to --config in this life, by module and name; guarded by mu
}

// Snapshots are what hooks' kubernetes bindings see. A binding is known by its
// subject.
type Snapshots interface {
	// Ready returns when every attached kubernetes binding of the hook sees all
	// objects that exist, or with an error that says which list is missing and
	// why.
	Ready(ctx context.Context, module, hook string) error
	// Snapshot returns the objects the binding sees now, by namespace and name; none
	// for a binding that is not attached. They are not to be changed.
	Snapshot(s store.Subject) []*kube.Object
}

// Disk returns the modules as scanned last. They are not to be changed.
func (s *Site) Disk() module.Set {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.disk
}

// gone reports whether there is no module of that name any more. It fails where
// that is in doubt, because a directory is there and holds no module at all.
func (s *Site) gone(name string) (bool, error) {
	disk := s.Disk()
	if _, ok := disk.Find(name); ok {
		return false, nil
	}
	if len(disk.Empty) > 0 {
		return false, fmt.Errorf("module %s is not on disk, but %s holds no module at all: is it mounted?", name, strings.Join(disk.Empty, ", "))
	}
	return true, nil
}

// Scan reads the directories of modules. What cannot be read leaves what was
// scanned before in its place.
func (s *Site) Scan() (module.Set, error) {
	if err := s.writeAddonModules(); err != nil {
		return module.Set{}, err
	}
	set, err := s.readModules()
	if err != nil {
		return module.Set{}, err
	}
	schemas, err := s.loadSchemas(set)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk, s.schemas, s.noGlobal = set, schemas, err
	s.scans++
	if err != nil {
		s.sayOnce(zerolog.ErrorLevel, "nothing can run before the schemas of global values can be used: "+err.Error())
	}
	for _, w := range set.Warnings {
		s.sayOnce(zerolog.WarnLevel, w)
	}
	for _, m := range set.Modules {
		if m.Broken != nil {
			s.sayOnce(zerolog.ErrorLevel, "module cannot be loaded and stays as it was: "+m.Broken.Error())
		}
	}
	return set, nil
}

// readModules reads the directories of modules. Their schemas are left to [Site.loadSchemas].
func (s *Site) readModules() (module.Set, error) {
	set, err := module.Scan(s.ModulesDirs, s.AddonModulesDir, s.UnnumberedOrder)
	if err == nil && s.StrictValues {
		err = s.wantValues(set)
	}
	return set, err
}

// sayOnce logs what was not logged before. The caller holds the lock.
func (s *Site) sayOnce(level zerolog.Level, what string) {
	if s.hookOutput[what] {
		return
	}
	if s.hookOutput == nil {
		s.hookOutput = map[string]bool{}
	}
	s.hookOutput[what] = true
	s.Log.WithLevel(level).Msg(what)
}

// startup returns the record of starts and converges.
func startup(tx *store.Tx) (store.Startup, error) {
	l, _, err := store.Load[store.Startup](tx, store.StartupKey())
	return l, err
}

// applied returns the ConfigMap content in force, and the record it is of.
func applied(tx *store.Tx) (values.Config, store.AppliedConfig, error) {
	record, ok, err := store.Load[store.AppliedConfig](tx, store.AppliedConfigKey())
	if err != nil || !ok {
		return values.Config{}, record, err
	}
	var c values.Config
	if err := json.Unmarshal(record.Config, &c); err != nil {
		return values.Config{}, record, fmt.Errorf("the applied ConfigMap content in the store: %w", err)
	}
	return c, record, nil
}

// inForce returns the ConfigMap content in force. It is decoded once for as long
// as it stays the same, and must not be changed.
func (s *Site) inForce(tx *store.Tx) (values.Config, error) {
	raw := tx.Get(store.AppliedConfigKey())
	s.mu.RLock()
	c, same := s.config, bytes.Equal(raw, s.configRaw)
	s.mu.RUnlock()
	if same {
		return c, nil
	}
	c, _, err := applied(tx)
	if err != nil {
		return c, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config, s.configRaw = c, bytes.Clone(raw)
	return c, nil
}

// saveApplied puts c in force.
func (s *Site) saveApplied(tx *store.Tx, c values.Config, resourceVersion string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	s.notify(tx, s.Applied)
	s.notify(tx, s.Recheck)
	return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: resourceVersion, Config: b, At: tx.Now()})
}

// enabledOverrides returns what hooks hold of enabled flags.
func enabledOverrides(tx *store.Tx) (map[string]values.EnabledOverride, error) {
	o, _, err := store.Load[map[string]values.EnabledOverride](tx, store.EnabledOverridesKey())
	return o, err
}

// layers returns what the values of the global section and of the sections
// named by keys are made of.
func (s *Site) layers(tx *store.Tx, keys ...string) (values.Layers, error) {
	if err := s.usable(""); err != nil {
		return values.Layers{}, err
	}
	config, err := s.inForce(tx)
	if err != nil {
		return values.Layers{}, err
	}
	l := values.Layers{Static: s.Disk().Static, Config: config, Saved: map[string][]values.Saved{}, Schemas: s.loaded()}
	for _, key := range append(slices.Clone(keys), values.Global) {
		saved, ok, err := store.Load[[]values.Saved](tx, store.SavedKey(key))
		if err != nil {
			return l, err
		}
		if ok {
			l.Saved[key] = saved
		}
	}
	return l, nil
}

// A hookRecord is a hook as the store knows it.
type hookRecord struct {
	file    hook.File
	config  hook.Config
	longest time.Duration // of its runs that succeeded; zero if none has
	awaits  []string      // bindings that its new code has yet to run; see store.Hook
}

// hookOf returns the hook named name of module, and whether it is known.
func hookOf(tx *store.Tx, module, name string) (hookRecord, bool, error) {
	r, ok, err := store.Load[store.Hook](tx, store.HookKey(module, name))
	if err != nil || !ok {
		return hookRecord{}, false, err
	}
	h, err := decodeHook(r)
	if err != nil {
		return h, false, fmt.Errorf("hook %s of module %q in the store: %w", name, module, err)
	}
	return h, true, nil
}

func decodeHook(r store.Hook) (h hookRecord, err error) {
	if err = json.Unmarshal(r.File, &h.file); err == nil {
		err = json.Unmarshal(r.Config, &h.config)
	}
	h.longest, h.awaits = r.Longest, r.Awaits
	return h, err
}

// hooksOf returns the known hooks of module by name.
func hooksOf(tx *store.Tx, module string) ([]hookRecord, error) {
	var hooks []hookRecord
	for k := range tx.Range(store.HooksOf(module)) {
		r, _, err := store.Load[store.Hook](tx, k)
		if err != nil {
			return nil, err
		}
		h, err := decodeHook(r)
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, h)
	}
	slices.SortFunc(hooks, func(a, b hookRecord) int { return strings.Compare(a.file.Name, b.file.Name) })
	return hooks, nil
}
