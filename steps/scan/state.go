package scan

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

// Options are the sources of the desired state of modules.
type Options struct {
	DB  *store.DB
	Log zerolog.Logger
	// ConfigMap is the operator's ConfigMap; nil if it is not read.
	ConfigMap *kube.ConfigMap

	ModulesDirs     []string
	AddonModulesDir string // directory of modules made from addons; "" if addons cannot be used as modules
	// If AllAddonsAsModules is true, the addons of every ClusterAddonsConfiguration can be used as modules; otherwise
	// only the addons of configurations with the annotation for modules can.
	AllAddonsAsModules bool
	GlobalHooksDir     string
	UnnumberedOrder    int
	// If StrictValues is true, a missing values.yaml is an error.
	StrictValues bool
}

// Changes is notified after commits that may have added or removed a problem of the ConfigMap.
type Changes = desired.ConfigChanges

// A State is the desired state of all modules: their files, their values, and the ConfigMap. It includes the modules
// that are made from addons in the registry.
type State struct {
	DB  *store.DB
	Log *oncelog.Logger

	Modules   *desired.Modules
	Addons    *modules.Provided
	Applied   *sections.Applied
	Values    *desired.Values
	ConfigMap *desired.ConfigMap
}

// New returns the state before the first scan, without modules. The state calls the argument changes when the problems
// of the ConfigMap may have changed. The argument changes can be nil.
func New(o Options, changes Changes) *State {
	if changes == nil {
		changes = silent{}
	}
	s := &State{DB: o.DB, Log: oncelog.New(o.Log), Applied: &sections.Applied{}}
	s.Addons = modules.NewProvided(o.DB, s.Log, s.Applied, o.AddonModulesDir, o.ModulesDirs, o.AllAddonsAsModules)
	s.Modules = desired.NewModules(o.DB, s.Log, desired.ModulesOptions{
		Dirs: o.ModulesDirs, AddonDir: o.AddonModulesDir, GlobalHooks: o.GlobalHooksDir,
		UnnumberedOrder: o.UnnumberedOrder, StrictValues: o.StrictValues,
	})
	s.Values = desired.NewValues(o.DB, s.Log, s.Modules, s.Applied)
	s.ConfigMap = desired.NewConfigMap(o.DB, s.Log, o.ConfigMap, s.Modules, changes)
	return s
}

// Scan writes the directories of the modules that are made from addons, and then reads the directories of all
// modules. If Scan returns an error, the modules of the previous scan stay in use.
func (s *State) Scan() (module.Set, error) {
	if err := s.Addons.Write(s.Modules.AddonDirs()); err != nil {
		return module.Set{}, err
	}
	return s.Modules.Scan()
}

// WriteAgain writes the directories of modules made from addons if they could not be written before; see
// [modules.Provided.WriteAgain].
func (s *State) WriteAgain() (mended, failing bool, err error) {
	return s.Addons.WriteAgain(s.Modules.AddonDirs())
}

// ScanAfter reads the directories again if the task t has failed before, because the files may have been corrected,
// and no discovery reads them before t ends. It also reads them again if the module of t is made from an addon and
// modules made from addons are outdated.
func (s *State) ScanAfter(t workflow.Task) error {
	stale := t.Failed != nil
	if !stale && s.Modules.MadeFromAddon(t.Subject.Module) {
		if err := s.DB.View(func(tx *store.Tx) error {
			outdated, err := s.Addons.Outdated(tx)
			stale = outdated != ""
			return err
		}); err != nil {
			return err
		}
	}
	if !stale {
		return nil
	}
	_, err := s.Scan()
	return err
}

// silent is a Changes that does nothing.
type silent struct{}

func (silent) ProblemsChanged() {}
