package steps

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"addon-operator/internal/module"
	"addon-operator/internal/schema"
	"addon-operator/store"
)

// Modules are the modules on disk, as the last scan found them. A scan replaces all of them at once,
// with their schemas: a reader never sees the modules of one scan with the schemas of another. A
// directory that cannot be read leaves the modules of the scan before in force.
type Modules struct {
	db              *store.DB
	log             *logger
	addons          *AddonModules
	dirs            []string
	globalHooks     string // the directory of global hooks
	unnumberedOrder int
	strictValues    bool

	digests     module.Digests
	schemaFiles schema.Cache

	mu       sync.RWMutex
	disk     module.Set             // guarded by mu
	scans    int                    // number of scans; guarded by mu
	schemas  map[string]*schema.Set // of disk, by the key of the section; guarded by mu
	noGlobal error                  // why the global schemas cannot be used; guarded by mu
}

// Disk returns the modules as scanned last. They are not to be changed.
func (d *Modules) Disk() module.Set {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.disk
}

// scanCount returns the number of scans.
func (d *Modules) scanCount() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.scans
}

// gone reports whether there is no module of that name any more. It fails where
// that is in doubt, because a directory is there and holds no module at all.
func (d *Modules) gone(name string) (bool, error) {
	disk := d.Disk()
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
func (d *Modules) Scan() (module.Set, error) {
	if err := d.addons.write(d.addonDirs()); err != nil {
		return module.Set{}, err
	}
	set, err := d.read()
	if err != nil {
		return module.Set{}, err
	}
	schemas, err := d.loadSchemas(set)
	d.mu.Lock()
	d.disk, d.schemas, d.noGlobal = set, schemas, err
	d.scans++
	d.mu.Unlock()
	if err != nil {
		d.log.once(zerolog.ErrorLevel, "nothing can run before the schemas of global values can be used: "+err.Error())
	}
	for _, w := range set.Warnings {
		d.log.once(zerolog.WarnLevel, w)
	}
	for _, m := range set.Modules {
		if m.Broken != nil {
			d.log.once(zerolog.ErrorLevel, "module cannot be loaded and stays as it was: "+m.Broken.Error())
		}
	}
	return set, nil
}

// read reads the directories of modules, without their schemas.
func (d *Modules) read() (module.Set, error) {
	set, err := module.Scan(d.dirs, d.addons.dir, d.unnumberedOrder)
	if err == nil && d.strictValues {
		err = d.wantValues(set)
	}
	return set, err
}

// addonDirs returns the directories of the modules made from addons.
func (d *Modules) addonDirs() (dirs []string) {
	for _, m := range d.Disk().Modules {
		if m.Addon != nil {
			dirs = append(dirs, m.Path)
		}
	}
	return dirs
}
