package modules

import (
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

// Provided are the modules made from addons of the registry. None has the name of a module of
// the image. The directory of a module that a step may be reading is not deleted.
type Provided struct {
	db        *store.DB
	log       *oncelog.Logger
	applied   *sections.Applied
	dir       string   // to which they are written; empty if there are none
	imageDirs []string // of the modules of the image
	all       bool     // all addons, not only those of configurations marked so

	writing sync.Mutex // held while dir is written
}

// NewProvided returns the modules made from addons of the registry in db. They are written to dir;
// if it is empty, there are none. imageDirs are the directories of the modules of the image. With all,
// all addons can be used as modules, not only those of configurations marked so.
func NewProvided(db *store.DB, log *oncelog.Logger, applied *sections.Applied, dir string, imageDirs []string, all bool) *Provided {
	return &Provided{db: db, log: log, applied: applied, dir: dir, imageDirs: imageDirs, all: all}
}

// Enabled reports whether addons can be used as modules.
func (a *Provided) Enabled() bool { return a.dir != "" }

// Write updates the directory of modules made from addons to the modules that the registry provides
// now. A module that cannot be written keeps its earlier directory. The directories in use stay,
// because steps may be reading them.
func (a *Provided) Write(inUse []string) error {
	if a.dir == "" || a.db == nil {
		return nil
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	selected, err := a.Choose()
	if err != nil {
		return err
	}
	if err := module.WriteAddonModules(a.dir, selected.Modules, inUse...); err != nil {
		a.log.Once(zerolog.ErrorLevel, "modules made from addons stay as they were: "+err.Error())
	}
	return nil
}

// Choose returns the modules that the registry of addons provides now.
func (a *Provided) Choose() (Selection, error) {
	var config values.Config
	var image map[string]string
	if err := a.db.View(func(tx *store.Tx) (err error) {
		if config, err = a.applied.InForce(tx); err != nil {
			return err
		}
		image, err = a.imageModules(tx)
		return err
	}); err != nil {
		return Selection{}, err
	}
	return Select(a.db, a.all, config.Sections, image)
}

// ImageModules returns the path of each module that is not made from an addon, by name. No addon
// can be a module of the same name. If a directory has no module, for example because it is not
// mounted, the result includes the modules of the last discovery.
func (a *Provided) ImageModules() (paths map[string]string, err error) {
	err = a.db.View(func(tx *store.Tx) (err error) {
		paths, err = a.imageModules(tx)
		return err
	})
	return paths, err
}

func (a *Provided) imageModules(tx *store.Tx) (map[string]string, error) {
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

// Expected reports whether a configuration that can provide modules is being processed for the
// first time. Until that ends, the names of its modules are unknown.
func (a *Provided) Expected(tx *store.Tx) (bool, error) {
	if a.dir == "" {
		return false, nil
	}
	return Expected(tx, a.all)
}

// Outdated returns the modules that the registry provides, as one text, if the last discovery found
// other modules or other versions of them. Otherwise it returns an empty text.
func (a *Provided) Outdated(tx *store.Tx) (string, error) {
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
	return Outdated(tx, a.all, config.Sections, image)
}
