package addons

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/api"
	"addon-operator/internal/module"
	"addon-operator/store"
)

// imageModules are the modules of the image by name, with their paths. No addon that can be used as a
// module may have the name of one.
type imageModules map[string]string

// imageModules returns the modules that addons of a configuration must not have the names of: none if
// the addons cannot be used as modules. Marked says that the configuration is marked so.
func (r *Runtime) imageModules(id api.Identity, marked bool) (imageModules, error) {
	if r.ImageModules == nil || id.Namespace != "" || !marked && !r.AllAsModules {
		return nil, nil
	}
	return r.ImageModules()
}

// Image returns what identifies the modules of the image, as [store.Configuration] has it.
func (r *Runtime) Image(id api.Identity, marked bool) (string, error) {
	image, err := r.imageModules(id, marked)
	return image.digest(), err
}

// digest identifies the names; it is empty if there are none.
func (m imageModules) digest() string {
	if len(m) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(m)), "\n")))
	return hex.EncodeToString(sum[:16])
}

// of returns the module of the image whose name the addon has, empty for none.
func (m imageModules) of(addon *store.AddonResult) string {
	if len(m) == 0 || addon.ID == "" {
		return ""
	}
	name, err := module.AddonModuleName(addon.Name)
	if _, taken := m[name]; err != nil || !taken {
		return ""
	}
	return name
}

// mark marks the addons that have the name of a module of the image.
func (m imageModules) mark(results []store.RepositoryResult) {
	for i := range results {
		for j := range results[i].Addons {
			addon := &results[i].Addons[j]
			if addon.ImageModule = m.of(addon); addon.ImageModule != "" {
				fail(addon, api.ConflictWithAlreadyRegisteredAddon, api.ImageConflictMessage(addon.ImageModule, m[addon.ImageModule]))
			}
		}
	}
}

// changes reports whether other addons conflict with modules of the image than results say.
func (m imageModules) changes(results []store.RepositoryResult) bool {
	return slices.ContainsFunc(results, func(r store.RepositoryResult) bool {
		return slices.ContainsFunc(r.Addons, func(a store.AddonResult) bool { return m.of(&a) != a.ImageModule })
	})
}

// conflicting returns the modules of the image whose names addons have.
func (m imageModules) conflicting(results []store.RepositoryResult) imageModules {
	found := imageModules{}
	for _, result := range results {
		for _, addon := range result.Addons {
			if name := m.of(&addon); name != "" {
				found[name] = m[name]
			}
		}
	}
	return found
}
