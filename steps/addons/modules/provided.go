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
// module in the operator's image. Provided keeps the directories of modules that a step may be reading.
type Provided struct {
	// Failed is called when a write fails. [Provided.WriteAgain] must then be called later. Failed is not called again
	// before a write has succeeded. It must not block. It can be nil.
	Failed func()

	db        *store.DB
	log       *oncelog.Logger
	applied   *sections.Applied
	dir       string   // directory to which the modules are written; empty if addons cannot be used as modules
	imageDirs []string // directories of modules in the operator's image
	all       bool     // use addons of all configurations, even without the annotation for modules

	writing sync.Mutex // held while dir is written

	mu      sync.Mutex
	failure error // the error of the last write of dir; guarded by mu
	mended  bool  // a write has succeeded after a failed one, and WriteAgain has not reported it yet; guarded by mu
}

// NewProvided returns the manager of modules made from addons in the registry in db. It writes the modules to dir; if
// dir is empty, addons cannot be used as modules. The argument imageDirs has the directories of modules in the
// operator's image. If the argument all is true, the addons of all cluster-wide configurations can be used as
// modules; otherwise only the addons of configurations with the annotation for modules can.
func NewProvided(db *store.DB, log *oncelog.Logger, applied *sections.Applied, dir string, imageDirs []string, all bool) *Provided {
	return &Provided{db: db, log: log, applied: applied, dir: dir, imageDirs: imageDirs, all: all}
}

// Enabled reports whether addons can be used as modules.
func (a *Provided) Enabled() bool { return a.dir != "" }

// Write makes the directory of modules made from addons contain exactly the modules that [Provided.Choose] returns. A
// module that cannot be written keeps its earlier directory. In this case, Write returns no error, and Choose returns a
// problem until a write succeeds. The directories in inUse are kept, because steps may be reading them.
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
	err = module.WriteAddonModules(a.dir, selected.Modules, inUse...)
	a.mu.Lock()
	failed := a.failure != nil
	a.mended = err == nil && (a.mended || failed)
	a.failure = err
	a.mu.Unlock()
	if err != nil {
		a.log.Once(zerolog.ErrorLevel, "modules made from addons could not be written and stay as they were: "+err.Error())
		if !failed && a.Failed != nil {
			a.Failed()
		}
	}
	return nil
}

// WriteAgain calls [Provided.Write] if modules could not be written before. The result mended reports whether a write
// has succeeded after a failed one, since the last call of WriteAgain. In this case, the last discovery may have found
// the earlier modules. The result failing reports whether the last write has failed. If it has, WriteAgain must be
// called again.
func (a *Provided) WriteAgain(inUse []string) (mended, failing bool, err error) {
	a.mu.Lock()
	failed := a.failure != nil
	a.mu.Unlock()
	if failed {
		err = a.Write(inUse)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	mended, a.mended = a.mended, false
	return mended, a.failure != nil, err
}

// Choose selects the modules that are made from registered addons, with the ConfigMap in force; see [Select]. If the
// last write of the modules has failed, the selection has a problem that says so.
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
	selected, err := Select(a.db, a.all, config.Sections, image)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		selected.Problems = append(selected.Problems, store.Problem{
			Kind: store.UnusableAddon, Object: a.dir, Error: "modules made from addons could not be written and stay as they were: " + a.failure.Error(),
			Fix: "free space on the volume of the directory, or make the directory writable; the operator then writes the modules, and converges if they have changed",
		})
	}
	return selected, err
}

// ImageModules returns the paths of the modules that are not made from addons, by name. No addon can become a module
// with one of these names. If a directory contains no modules, for example because it is not mounted, the result also
// includes the modules that earlier discoveries have found in directories.
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
	known, err := store.LoadReadableModules(tx)
	if err != nil {
		return nil, err
	}
	fromAddons, err := store.LoadAddonModules(tx)
	for name, m := range known {
		_, listed := paths[name]
		if _, isAddon := fromAddons[name]; !listed && !isAddon && !m.FromAddon {
			paths[name] = strings.Join(empty, ":")
		}
	}
	return paths, err
}

// Expected reports whether a configuration that can provide modules is being processed for the first time. Until the
// first round of this configuration ends, the names of its modules are unknown.
func (a *Provided) Expected(tx *store.Tx) (bool, error) {
	if a.dir == "" {
		return false, nil
	}
	return Expected(tx, a.all)
}

// Outdated returns a text that lists the modules of [Provided.Choose], if they differ from the modules of the last
// discovery. Otherwise it returns "".
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
