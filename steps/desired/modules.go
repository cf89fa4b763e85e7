package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"addon-operator/internal/module"
	"addon-operator/internal/schema"
	"addon-operator/internal/values"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
)

// schemasDir is the directory of the schemas of a module or of global hooks.
const schemasDir = "openapi"

// Modules has the modules on disk, as the last scan found them. A scan replaces all of them at once, with their
// schemas. If a scan ends between two calls of methods, the results of the calls come from different scans. If a
// directory cannot be read, Modules keeps the modules of the previous scan.
type Modules struct {
	db              *store.DB
	log             *oncelog.Logger
	addonDir        string // the directory of modules made from addons; empty if there are none
	dirs            []string
	globalHooks     string // the directory of global hooks
	unnumberedOrder int
	strictValues    bool

	digests     module.Digests
	schemaFiles schema.Cache

	mu       sync.RWMutex
	disk     module.Set             // guarded by mu
	scans    int                    // number of scans; guarded by mu
	schemas  map[string]*schema.Set // schemas of disk, by the key of the section; guarded by mu
	noGlobal error                  // error of the schemas of global values; nil if they can be used; guarded by mu
}

// ModulesOptions are the directories of modules, and how they are read.
type ModulesOptions struct {
	Dirs            []string
	AddonDir        string // the directory of modules made from addons; empty if there are none
	GlobalHooks     string // the directory of global hooks
	UnnumberedOrder int
	// If StrictValues is true, a missing values.yaml is an error.
	StrictValues bool
}

// NewModules returns Modules that contain no modules before the first scan.
func NewModules(db *store.DB, log *oncelog.Logger, o ModulesOptions) *Modules {
	return &Modules{
		db: db, log: log, dirs: o.Dirs, addonDir: o.AddonDir, globalHooks: o.GlobalHooks,
		unnumberedOrder: o.UnnumberedOrder, strictValues: o.StrictValues,
	}
}

// Disk returns the modules of the last scan. The caller must not change them.
func (d *Modules) Disk() module.Set {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.disk
}

// withSchemas returns the modules of the last scan with their schemas, by the key of the section.
func (d *Modules) withSchemas() (module.Set, map[string]*schema.Set) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.disk, d.schemas
}

// Dirs are the directories of modules.
func (d *Modules) Dirs() []string { return d.dirs }

// GlobalHooks is the directory of global hooks.
func (d *Modules) GlobalHooks() string { return d.globalHooks }

// Digests returns the cache with which digests of the files of modules are computed.
func (d *Modules) Digests() *module.Digests { return &d.digests }

// List reads the directories of modules, without the schemas, and without a check for missing values files and for
// files that cannot be read. It does not replace the modules of the last scan.
func (d *Modules) List() (module.Set, error) {
	return module.Scan(d.dirs, d.addonDir, d.unnumberedOrder)
}

// scanCount returns the number of scans since the operator started.
func (d *Modules) scanCount() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.scans
}

// Gone reports whether the module no longer exists, according to the last scan. If the module is not on disk and a
// directory of modules is empty, Gone returns an error, because it is possible that the directory is not mounted.
func (d *Modules) Gone(name string) (bool, error) {
	disk := d.Disk()
	if _, ok := disk.Find(name); ok {
		return false, nil
	}
	if len(disk.Empty) > 0 {
		return false, fmt.Errorf("module %s is not on disk, but %s holds no module at all: is it mounted?", name, strings.Join(disk.Empty, ", "))
	}
	return true, nil
}

// Scan reads the directories of modules and their schemas, and logs the problems that it finds. If it returns an
// error, the modules of the previous scan stay in use.
func (d *Modules) Scan() (module.Set, error) {
	set, err := d.Read()
	if err != nil {
		return module.Set{}, err
	}
	schemas, err := d.LoadSchemas(set)
	d.mu.Lock()
	d.disk, d.schemas, d.noGlobal = set, schemas, err
	d.scans++
	d.mu.Unlock()
	if err != nil {
		d.log.Once(zerolog.ErrorLevel, "nothing can run before the schemas of global values can be used: "+err.Error())
	}
	for _, w := range set.Warnings {
		d.log.Once(zerolog.WarnLevel, w)
	}
	for _, m := range set.Modules {
		if m.Broken != nil {
			d.log.Once(zerolog.ErrorLevel, "module cannot be loaded and stays as it was: "+m.Broken.Error())
		}
	}
	return set, nil
}

// Read is like List, but marks a module with a file that cannot be read as broken. It also checks for missing values
// files if StrictValues is set.
func (d *Modules) Read() (module.Set, error) {
	set, err := d.List()
	if err != nil {
		return set, err
	}
	for i := range set.Modules {
		if m := &set.Modules[i]; m.Broken == nil {
			_, m.Broken = d.DirectoryDigest(*m)
		}
	}
	if d.strictValues {
		err = d.wantValues(set)
	}
	return set, err
}

// AddonDirs returns the directories of the modules that the last scan has found and that are made from addons.
func (d *Modules) AddonDirs() (dirs []string) {
	for _, m := range d.Disk().Modules {
		if m.Addon != nil {
			dirs = append(dirs, m.Path)
		}
	}
	return dirs
}

// LoadSchemas returns the schemas of the modules of set and of the global section, by key. It marks a module with
// unusable schemas as broken. It returns an error if the schemas of the global section cannot be used; in this case,
// no step can run.
func (d *Modules) LoadSchemas(set module.Set) (map[string]*schema.Set, error) {
	loaded := map[string]*schema.Set{}
	for i := range set.Modules {
		m := &set.Modules[i]
		if m.Broken != nil {
			continue
		}
		schemas, err := d.schemaFiles.Load(filepath.Join(m.Path, schemasDir))
		if err != nil {
			m.Broken = err
			continue
		}
		loaded[m.Key] = schemas
	}
	if d.globalHooks == "" {
		return loaded, nil
	}
	schemas, err := d.schemaFiles.Load(filepath.Join(d.globalHooks, schemasDir))
	loaded[values.Global] = schemas
	return loaded, err
}

// wantValues marks the modules of set that have no values.yaml as broken. It returns an error if a directory of
// modules has no values.yaml.
func (d *Modules) wantValues(set module.Set) error {
	const remedy = "add it, it may be empty, or start without --strict-check-values-mode-enabled"
	missing := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "values.yaml"))
		return errors.Is(err, fs.ErrNotExist)
	}
	for i := range set.Modules {
		if m := &set.Modules[i]; m.Broken == nil && missing(m.Path) {
			m.Broken = fmt.Errorf("%s has no values.yaml: %s", m.Path, remedy)
		}
	}
	var errs []error
	for _, dir := range d.dirs {
		if missing(dir) {
			errs = append(errs, fmt.Errorf("modules directory %s has no values.yaml: %s", dir, remedy))
		}
	}
	return errors.Join(errs...)
}

// Usable returns the reason why a module cannot be used, or nil if it can. For a module that the last scan has not
// found, or if module is empty, Usable checks only the global schemas.
func (d *Modules) Usable(module string) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.noGlobal != nil {
		return d.noGlobal
	}
	m, found := d.disk.Find(module)
	if module == "" || !found {
		return nil
	}
	return m.Broken
}

// Schemas returns the schemas of the last scan, by the key of the section. The caller must not change them.
func (d *Modules) Schemas() map[string]*schema.Set {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.schemas
}

// Code returns one checksum of all code that the lifecycle uses: the global hooks, the modules of set with their
// values files and flags, and the texts in the argument more. A file that a step or an earlier call of Code has read is
// read again only if it has changed. Code ignores modules made from addons. They change while the operator runs, and
// each of their changes requests a converge.
func (d *Modules) Code(set module.Set, more ...string) (string, error) {
	sum := sha256.New()
	global, err := d.digests.GlobalHooks(d.globalHooks)
	if err != nil {
		return "", err
	}
	static, err := values.Checksum(set.Static)
	if err != nil {
		return "", fmt.Errorf("values of %q: %w", d.dirs, err)
	}
	_, _ = fmt.Fprintln(sum, more, global, static) // a write to a hash returns no error
	for _, m := range set.Modules {
		if m.FromAddon {
			continue
		}
		own, crds := "broken", ""
		if m.Broken == nil {
			if own, err = d.digests.Module(m); err != nil {
				return "", err
			}
			if crds, err = d.digests.CRDs(m); err != nil {
				return "", err
			}
		}
		_, _ = fmt.Fprintln(sum, m.Order, m.Name, own, crds, m.Flags)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// CodeOf returns the digest of the code of module on disk. If module is empty, it returns the digest of the code of
// the global hooks.
func (d *Modules) CodeOf(module string) (string, error) {
	if module == "" {
		return d.digests.GlobalHooks(d.globalHooks)
	}
	m, ok := d.Disk().Find(module)
	if !ok || m.Broken != nil {
		return "", errors.New("the module cannot be read")
	}
	return d.digests.Module(m)
}

// DirectoryDigest returns the digest of all files in the directory of m that a module run uses.
func (d *Modules) DirectoryDigest(m module.Module) (string, error) {
	code, err := d.digests.Module(m)
	if err != nil {
		return "", err
	}
	crds, err := d.digests.CRDs(m)
	return cmp.Or(code+crds, "none"), err
}

// MadeFromAddon reports whether the last scan has found a module with this name that is made from an addon.
func (d *Modules) MadeFromAddon(name string) bool {
	m, _ := d.Disk().Find(name)
	return m.Addon != nil
}

// WarnOfDefaultPlan logs a warning, once, if the addon of module m has several plans and the section of the module
// selects none of them.
func (d *Modules) WarnOfDefaultPlan(m module.Module, section any) {
	chosen, _ := section.(map[string]any)
	plan, byDefault := m.Addon.Plan(chosen)
	if !byDefault {
		return
	}
	d.log.Once(zerolog.WarnLevel, fmt.Sprintf("module %s uses the first plan of addon %s %s, %s; set %s in section %s to one of %s",
		m.Name, m.Addon.Name, m.Addon.Version, plan, module.PlanKey, m.Key, strings.Join(m.Addon.PlanNames(), ", ")))
}
