package module

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/internal/values"
)

// An AddonModule is a module to be made from a registered addon.
type AddonModule struct {
	// Name is the name of the module.
	Name  string
	Addon Addon
	// Chart returns the files of the chart. It is called only if the directory of the module does
	// not hold them.
	Chart func() (fs.FS, error)
}

// WriteAddonModules makes root hold the directories of these modules, which must have different
// names, and no others. A directory that describes the same addon is left alone, unless a part of it
// is missing. Each directory is replaced as a whole, so a crash leaves either the old or the new one,
// or none. Root is made if it does not exist.
//
// A module that cannot be written keeps the directory it had; the others are written. The error
// names each such module.
func WriteAddonModules(root string, modules []AddonModule) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("directory of modules made from addons: %w", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("directory of modules made from addons: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if !slices.ContainsFunc(modules, func(m AddonModule) bool { return m.Name == entry.Name() }) {
			errs = append(errs, os.RemoveAll(filepath.Join(root, entry.Name())))
		}
	}
	for _, m := range modules {
		if err := m.write(root); err != nil {
			errs = append(errs, fmt.Errorf("module %s from addon %s %s: %w", m.Name, m.Addon.Name, m.Addon.Version, err))
		}
	}
	return errors.Join(errs...)
}

// write makes root hold the directory of m.
func (m AddonModule) write(root string) error {
	about, err := json.MarshalIndent(m.Addon, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Join(root, m.Name)
	if isComplete(dir, about) {
		return nil
	}
	files, err := m.Chart()
	if err != nil {
		return err
	}
	// The name begins with a dot, so it is no module, and is removed by the next call.
	next := filepath.Join(root, ".next-"+m.Name)
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(filepath.Join(next, schemaDir), 0o700)); err != nil {
		return err
	}
	key := values.Camel(m.Name)
	schema, err := m.Addon.configSchema()
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.CopyFS(filepath.Join(next, addonChartDir), files),
		os.WriteFile(filepath.Join(next, schemaDir, configSchemaFile), schema, 0o600),
		os.WriteFile(filepath.Join(next, valuesFile), []byte(values.Flag(key)+": false\n"), 0o600),
		os.WriteFile(filepath.Join(next, addonFile), about, 0o600), // last: it says that the rest is complete
	); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(next, dir))
}

// isComplete reports whether dir describes the addon about and has the files of such a directory, so
// that one of which somebody has removed a part is written again.
func isComplete(dir string, about []byte) bool {
	there, err := os.ReadFile(filepath.Join(dir, addonFile))
	if err != nil || !bytes.Equal(there, about) {
		return false
	}
	for _, name := range []string{valuesFile, filepath.Join(schemaDir, configSchemaFile)} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	m := Module{Path: dir}
	return m.findAddon() == nil
}

const (
	schemaDir        = "openapi"
	configSchemaFile = "config-values.yaml"
)

// configSchema returns the schema of the module's section in the ConfigMap. The schema of the plan
// is not part of it, because the section itself says which plan that is: see [Addon.HelmValues].
func (a *Addon) configSchema() ([]byte, error) {
	names := make([]string, len(a.Plans))
	for i, p := range a.Plans {
		names[i] = p.Name
	}
	return json.MarshalIndent(map[string]any{
		"type":                 "object",
		"additionalProperties": true,
		"properties": map[string]any{
			PlanKey:         map[string]any{"type": "string", "enum": names, "description": "plan of addon " + a.Name},
			AddonVersionKey: map[string]any{"type": "string", "minLength": 1, "description": "version of addon " + a.Name + "; the highest one without it"},
		},
	}, "", "  ")
}

// maxAddonModule is the greatest length of the name of a module that is made from an addon. The name
// is that of its Helm release.
const maxAddonModule = 53

// AddonModuleName returns the name of the module that is made from the addon of that name, or an
// error if no module can have it.
func AddonModuleName(addon string) (string, error) {
	name := strings.ToLower(values.Kebab(addon))
	if err := values.CheckName(name); err != nil {
		return name, err
	}
	if _, read := parseDirName(name, 0); read != name {
		return name, fmt.Errorf("its directory %q would be read as that of module %q with an order", name, read)
	}
	if len(name) > maxAddonModule {
		return name, fmt.Errorf("module name %q has %d characters, the limit for Helm releases is %d", name, len(name), maxAddonModule)
	}
	return name, nil
}
