package steps

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

// AddonModules are the modules made from addons of the registry. None has the name of a module of
// the image. The directory of a module that a step may be reading is not deleted.
type AddonModules struct {
	db        *store.DB
	log       *logger
	applied   *sections.Applied
	dir       string   // to which they are written; empty if there are none
	imageDirs []string // of the modules of the image
	all       bool     // all addons, not only those of configurations marked so

	writing sync.Mutex // held while dir is written
}

// write updates the directory of modules made from addons to the modules that the registry provides
// now. A module that cannot be written keeps its earlier directory. The directories in use stay,
// because steps may be reading them.
func (a *AddonModules) write(inUse []string) error {
	if a.dir == "" || a.db == nil {
		return nil
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	selected, err := a.choose()
	if err != nil {
		return err
	}
	if err := module.WriteAddonModules(a.dir, selected.Modules, inUse...); err != nil {
		a.log.once(zerolog.ErrorLevel, "modules made from addons stay as they were: "+err.Error())
	}
	return nil
}

// choose returns the modules that the registry of addons provides now.
func (a *AddonModules) choose() (modules.Selection, error) {
	var config values.Config
	var image map[string]string
	if err := a.db.View(func(tx *store.Tx) (err error) {
		if config, err = a.applied.InForce(tx); err != nil {
			return err
		}
		image, err = a.imageModules(tx)
		return err
	}); err != nil {
		return modules.Selection{}, err
	}
	return modules.Select(a.db, a.all, config.Sections, image)
}

// made reports whether m was made from an addon, or is the rest of such a module.
func (a *AddonModules) made(m module.Module) bool {
	if m.Addon != nil {
		return true
	}
	dir, err := filepath.Abs(a.dir)
	return a.dir != "" && err == nil && strings.HasPrefix(m.Path, dir+string(filepath.Separator))
}

// ImageModules returns the path of each module that is not made from an addon, by name. No addon
// can be a module of the same name. If a directory has no module, for example because it is not
// mounted, the result includes the modules of the last discovery.
func (a *AddonModules) ImageModules() (paths map[string]string, err error) {
	err = a.db.View(func(tx *store.Tx) (err error) {
		paths, err = a.imageModules(tx)
		return err
	})
	return paths, err
}

func (a *AddonModules) imageModules(tx *store.Tx) (map[string]string, error) {
	paths, empty, err := module.Names(a.imageDirs)
	if err != nil || len(empty) == 0 {
		return paths, err
	}
	known, err := store.LoadModules(tx)
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

// expected reports whether a configuration that can provide modules is being processed for the
// first time. Until that ends, the names of its modules are unknown.
func (a *AddonModules) expected(tx *store.Tx) (bool, error) {
	if a.dir == "" {
		return false, nil
	}
	return modules.Expected(tx, a.all)
}

// saveAddonModules saves which modules of a discovery are made from addons. The enabled modules,
// and those that are not deleted yet, keep the files of their addons.
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

// Outdated returns the modules that the registry provides, as one text, if the last discovery found
// other modules or other versions of them. Otherwise it returns an empty text.
func (a *AddonModules) Outdated(tx *store.Tx) (string, error) {
	if a.dir == "" {
		return "", nil
	}
	config, err := a.applied.InForce(tx)
	if err != nil {
		return "", err
	}
	image, err := a.imageModules(tx)
	if err != nil {
		return "", err
	}
	return modules.Outdated(tx, a.all, config.Sections, image)
}
