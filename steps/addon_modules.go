package steps

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/store"
)

// writeAddonModules makes the directory of modules made from addons hold those that the registry
// provides now. A module that cannot be written keeps the directory it had. The directories of the
// modules as scanned last stay: steps may be reading them.
func (s *Site) writeAddonModules() error {
	if s.AddonModulesDir == "" || s.DB == nil {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	selected, err := s.selectAddonModules()
	if err != nil {
		return err
	}
	var inUse []string
	for _, m := range s.Disk().Modules {
		if m.Addon != nil {
			inUse = append(inUse, m.Path)
		}
	}
	if err := module.WriteAddonModules(s.AddonModulesDir, selected.Modules, inUse...); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sayOnce(zerolog.ErrorLevel, "modules made from addons stay as they were: "+err.Error())
	}
	return nil
}

// selectAddonModules returns the modules that the registry of addons provides now.
func (s *Site) selectAddonModules() (modules.Selection, error) {
	var config values.Config
	var image map[string]string
	if err := s.DB.View(func(tx *store.Tx) (err error) {
		if config, err = s.inForce(tx); err != nil {
			return err
		}
		image, err = s.imageModules(tx)
		return err
	}); err != nil {
		return modules.Selection{}, err
	}
	return modules.Select(s.DB, s.AllAddonsAsModules, config.Sections, image)
}

// ImageModules returns the path of each module that is not made from an addon, by name. No addon can be
// a module of the same name. If a directory holds no module, as one that is not mounted does, the
// modules of the last discovery are among them.
func (s *Site) ImageModules() (paths map[string]string, err error) {
	err = s.DB.View(func(tx *store.Tx) (err error) {
		paths, err = s.imageModules(tx)
		return err
	})
	return paths, err
}

func (s *Site) imageModules(tx *store.Tx) (map[string]string, error) {
	paths, empty, err := module.Names(s.ModulesDirs)
	if err != nil || len(empty) == 0 {
		return paths, err
	}
	known, err := modulesKnown(tx)
	if err != nil {
		return nil, err
	}
	fromAddons, err := store.LoadAddonModules(tx)
	for name := range known {
		_, listed := paths[name]
		if _, isAddon := fromAddons[name]; !listed && !isAddon {
			paths[name] = strings.Join(empty, ":")
		}
	}
	return paths, err
}

// warnOfDefaultPlan logs once that nobody has chosen one of the plans of a module's addon.
func (s *Site) warnOfDefaultPlan(m module.Module, section any) {
	chosen, _ := section.(map[string]any)
	plan, byDefault := m.Addon.Plan(chosen)
	if !byDefault {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayOnce(zerolog.WarnLevel, fmt.Sprintf("module %s uses the first plan of addon %s %s, %s; set %s in section %s to one of %s",
		m.Name, m.Addon.Name, m.Addon.Version, plan, module.PlanKey, m.Key, strings.Join(m.Addon.PlanNames(), ", ")))
}

// madeFromAddon reports whether the module, as scanned last, was made from an addon.
func (s *Site) madeFromAddon(name string) bool {
	m, _ := s.Disk().Find(name)
	return m.Addon != nil
}

// saveAddonModules saves which modules of a discovery are made from addons. Those that are enabled,
// or not deleted yet, keep the files of their addons.
func saveAddonModules(tx *store.Tx, found discovered, before map[string]store.Module) error {
	contents, used := map[string]string{}, map[string]bool{}
	for _, d := range found.Modules {
		if d.Addon == "" {
			continue
		}
		state := before[d.Name].State
		contents[d.Name], used[d.Name] = d.Addon, d.Enabled || state != store.Off && state != ""
	}
	return modules.Save(tx, contents, func(name string) bool { return used[name] })
}

// AddonsOutdated returns which modules the registry provides, as one text, if the last discovery found
// others, or other versions of them; empty if it did not.
func (s *Site) AddonsOutdated(tx *store.Tx) (string, error) {
	if s.AddonModulesDir == "" {
		return "", nil
	}
	config, err := s.inForce(tx)
	if err != nil {
		return "", err
	}
	image, err := s.imageModules(tx)
	if err != nil {
		return "", err
	}
	return modules.Outdated(tx, s.AllAddonsAsModules, config.Sections, image)
}
