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

// Provided manages the modules that are made from addons of the registry. None of these modules has the name of a
// module of the image. Provided does not delete the directory of a module that a step may be reading.
type Provided struct {
	db        *store.DB
	log       *oncelog.Logger
	applied   *sections.Applied
	dir       string   // the directory to which the modules are written; empty if there are none
	imageDirs []string // directories of the modules of the image
	all       bool     // use the addons of all configurations, not only of those with the annotation for modules

	writing sync.Mutex // held while dir is written
}

// NewProvided returns the modules made from addons of the registry in db. They are written to dir;
// if dir is empty, there are none. imageDirs are the directories of the modules of the image. If
// all is true, all addons can be used as modules; otherwise only those of configurations with the
// annotation for modules.
func NewProvided(db *store.DB, log *oncelog.Logger, applied *sections.Applied, dir string, imageDirs []string, all bool) *Provided {
	return &Provided{db: db, log: log, applied: applied, dir: dir, imageDirs: imageDirs, all: all}
}

// Enabled reports whether addons can be used as modules.
func (a *Provided) Enabled() bool { return a.dir != "" }

// Write updates the directory of modules made from addons, so that it contains the modules that the registry
// provides. A module that cannot be written keeps its earlier directory. The directories in inUse are kept, because
// steps may be reading them.
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
// can become a module of such a name. If a directory contains no modules, for example because it is
// not mounted, the result includes the modules of the last discovery.
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

// Expected reports whether a configuration that can provide modules is being processed for the first time. Until the
// end of that round, the names of its modules are unknown.
func (a *Provided) Expected(tx *store.Tx) (bool, error) {
	if a.dir == "" {
		return false, nil
	}
	return Expected(tx, a.all)
}

// Outdated returns the modules that the registry provides, as one text, if they differ from those
// of the last discovery. Otherwise it returns "".
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
