package module

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"addon-operator/internal/values"
)

// Chart is the kind of Helm chart of a module.
type Chart string

const (
	// NoChart means that there is no chart; the Helm steps of the module are skipped.
	NoChart Chart = ""
	// TemplatesOnly means that there is a directory templates, but no Chart.yaml. For the release, a chart is
	// generated around the templates.
	TemplatesOnly Chart = "templates"
	// FullChart means that there is a chart with a Chart.yaml.
	FullChart Chart = "chart"
)

// Module is one module on disk. Paths are absolute. Symlinks in them are not resolved, because
// hooks read the order and name of their module from the path.
type Module struct {
	// Name is the name in kebab-case. Key is the camelCase key of the module's section. If the name of a broken
	// module is invalid, Key is empty.
	Name, Key string
	// Order is the number in the directory's name.
	Order int
	// Path is the path of the directory.
	Path string
	// Chart is the kind of chart at the time of the scan. [FindChart] returns the current one.
	Chart Chart
	// Hooks is the directory of hooks, "" if there is none.
	Hooks string
	// CRDs is the directory of CustomResourceDefinitions, "" if there is none.
	CRDs string
	// Enabled is the enabled script, "" if there is none.
	Enabled string
	// Addon describes the registered addon of the module, nil if there is none.
	Addon *Addon
	// Flags has the enabled flags in the values files, from low to high precedence.
	Flags []Decision
	// Broken is the error that prevents the module from being loaded; nil if there is none. Fields other than Name, Order and
	// Path may then be incomplete.
	Broken error
}

// BrokenBy returns the error because of which the module cannot be loaded, or nil. It is the error of the module's
// files, or the error in hooks, which has the errors of hooks by the name of the module.
func (m *Module) BrokenBy(hooks map[string]error) error {
	if m.Broken != nil {
		return m.Broken
	}
	if err := hooks[m.Name]; err != nil {
		return fmt.Errorf("module %s: %w", m.Name, err)
	}
	return nil
}

// These are the names of a module's parts in its directory.
const (
	chartFile    = "Chart.yaml"
	templatesDir = "templates"
	hooksDir     = "hooks"
	crdsDir      = "crds"
	enabledFile  = "enabled"
)

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// parseDirName splits the name of a module's directory. If there is no number, or if it is too large, the order is
// unnumbered.
func parseDirName(dir string, unnumbered int) (order int, name string) {
	m := numbered.FindStringSubmatch(dir)
	if m == nil {
		return unnumbered, dir
	}
	order, err := strconv.Atoi(m[1])
	if err != nil {
		return unnumbered, m[2]
	}
	return order, m[2]
}

// load reads the module in the directory m.Path. It sets either the parts or Broken. It returns the module's values
// file, and warnings.
func (m *Module) load() (file values.File, warnings []string) {
	if err := values.CheckName(m.Name); err != nil {
		m.Broken = fmt.Errorf("%s: %w", m.Path, err)
		return values.File{}, nil
	}
	m.Key = values.Camel(m.Name)
	warnings, err := m.findParts()
	if err == nil {
		err = m.findAddon()
	}
	if err != nil {
		m.Broken = err
		return values.File{}, warnings
	}
	file, err = values.ReadFile(filepath.Join(m.Path, valuesFile))
	if err != nil {
		m.Broken = err
		return values.File{}, warnings
	}
	for _, key := range []string{m.Key, values.Flag(m.Key)} {
		m.Broken = errors.Join(m.Broken, file.Bad[key])
	}
	return file, warnings
}

// findParts finds the parts in the module's directory.
func (m *Module) findParts() (warnings []string, err error) {
	parts, misspelt, err := readParts(m.Path)
	if err != nil {
		return nil, err
	}
	if m.Chart, err = chartOf(m.Path, parts, misspelt); err != nil {
		return nil, err
	}
	if mode, found := parts[hooksDir]; found {
		m.Hooks = filepath.Join(m.Path, hooksDir)
		if !mode.IsDir() {
			warnings = append(warnings, m.Hooks+" is not a directory: the module is taken to have no hooks")
			m.Hooks = ""
		}
	}
	if parts[crdsDir].IsDir() {
		m.CRDs = filepath.Join(m.Path, crdsDir)
	} else if _, found := parts[crdsDir]; found {
		warnings = append(warnings, filepath.Join(m.Path, crdsDir)+" is not a directory: the module is taken to bring no CustomResourceDefinitions")
	}
	if mode, found := parts[enabledFile]; found {
		m.Enabled = filepath.Join(m.Path, enabledFile)
		switch {
		case !mode.IsRegular():
			return warnings, fmt.Errorf("%s is not a file, so nobody knows whether the module may be enabled: replace it by a script, or remove it", m.Enabled)
		case mode.Perm()&0o111 == 0:
			return warnings, fmt.Errorf("%s cannot be executed, so nobody knows whether the module may be enabled: chmod +x it, or remove it", m.Enabled)
		}
	}
	return warnings, nil
}

// FindChart returns the current kind of chart in a module's directory. It can differ from [Module.Chart], because
// hooks can write a chart after the scan.
func FindChart(dir string) (Chart, error) {
	parts, misspelt, err := readParts(dir)
	if err != nil {
		return NoChart, err
	}
	return chartOf(dir, parts, misspelt)
}

// readParts returns the modes of the parts in a module's directory, by name. misspelt is the path of a chart file
// whose name has the wrong case.
func readParts(dir string) (parts map[string]fs.FileMode, misspelt string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the module: %w", err)
	}
	parts = map[string]fs.FileMode{}
	for _, entry := range entries {
		switch name := entry.Name(); name {
		case chartFile, templatesDir, hooksDir, crdsDir, enabledFile:
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				return nil, "", fmt.Errorf("cannot read a part of the module: %w", err)
			}
			parts[name] = info.Mode()
		default:
			if strings.EqualFold(name, chartFile) {
				misspelt = filepath.Join(dir, name)
			}
		}
	}
	return parts, misspelt, nil
}

// chartOf returns the kind of chart in a module's directory with these parts.
func chartOf(path string, parts map[string]fs.FileMode, misspelt string) (Chart, error) {
	mode, found := parts[chartFile]
	switch {
	case found && !mode.IsRegular():
		return NoChart, fmt.Errorf("%s is not a regular file: replace or remove it", filepath.Join(path, chartFile))
	case found:
		return FullChart, nil
	case misspelt != "":
		return NoChart, fmt.Errorf("%s: the chart file must be named %s, with one capital: rename it", misspelt, chartFile)
	case parts[templatesDir].IsDir():
		return TemplatesOnly, nil
	default:
		return NoChart, nil
	}
}
