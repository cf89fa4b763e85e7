package failure

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

// ImageModules maps the name of each module of the image to its path. An addon with the name of such a module cannot
// be used as a module.
type ImageModules map[string]string

// Digest returns a checksum of the names of the modules, or "" if m is empty.
func (m ImageModules) Digest() string {
	if len(m) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(m)), "\n")))
	return hex.EncodeToString(sum[:16])
}

// The method named "of" returns the name of the module that is made from the addon. If the image has no module with
// this name, the method returns "".
func (m ImageModules) of(addon *store.AddonResult) string {
	if len(m) == 0 || addon.ID == "" {
		return ""
	}
	name, err := module.AddonModuleName(addon.Name)
	if _, taken := m[name]; err != nil || !taken {
		return ""
	}
	return name
}

// Mark finds the addons in results that conflict with a module of the image: the module made from the addon would
// have the same name. Mark sets the reason of these addons, and updates the field ImageModule of all addons.
func (m ImageModules) Mark(results []store.RepositoryResult) {
	for i := range results {
		for j := range results[i].Addons {
			addon := &results[i].Addons[j]
			if addon.ImageModule = m.of(addon); addon.ImageModule != "" {
				Set(addon, api.ConflictWithAlreadyRegisteredAddon, api.ImageConflictMessage(addon.ImageModule, m[addon.ImageModule]))
			}
		}
	}
}

// Changes reports whether [ImageModules.Mark] would change the field ImageModule of an addon in results.
func (m ImageModules) Changes(results []store.RepositoryResult) bool {
	return slices.ContainsFunc(results, func(r store.RepositoryResult) bool {
		return slices.ContainsFunc(r.Addons, func(a store.AddonResult) bool { return m.of(&a) != a.ImageModule })
	})
}

// Conflicting returns the modules of the image that have the same name as a module made from an addon in results.
func (m ImageModules) Conflicting(results []store.RepositoryResult) ImageModules {
	found := ImageModules{}
	for _, result := range results {
		for _, addon := range result.Addons {
			if name := m.of(&addon); name != "" {
				found[name] = m[name]
			}
		}
	}
	return found
}

// Set sets the reason and the message of an addon.
func Set(addon *store.AddonResult, reason api.Reason, message string) {
	addon.Reason, addon.Message = string(reason), message
}
