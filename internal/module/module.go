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
	// NoChart means that the module has no chart. The Helm steps of such a module are skipped.
	NoChart Chart = ""
	// TemplatesOnly means that the module has a directory "templates", but no Chart.yaml. To install the release, the
	// operator generates a chart around the templates.
	TemplatesOnly Chart = "templates"
	// FullChart means that the module has a chart with a Chart.yaml.
	FullChart Chart = "chart"
)

// OtherDirs are the names of directories that are not part of a TemplatesOnly chart, at any depth. They are the same as
// in flant/addon-operator, so that releases which that operator installed do not change.
var OtherDirs = []string{"crds", "docs", "hooks", "images", "lib"}

// Module is one module on disk. All its paths are absolute. Symlinks in paths are not resolved, because hooks read
// the order and name of their module from the path. Only for a module made from an addon, which has no hooks, Path is
// the target of the symlink.
type Module struct {
	// Name is the name in kebab-case. Key is the camelCase key of the module's section. If the name is invalid, which
	// makes the module broken, Key is empty.
	Name, Key string
	// Order is the number in the name of the module's directory, or the order that all modules without a number have.
	// Modules run in this order.
	Order int
	// Path is the path of the module's directory.
	Path string
	// Chart is the kind of chart at the time of the scan. [FindChart] returns the current kind.
	Chart Chart
	// Hooks is the path of the directory of hooks, "" if there is none.
	Hooks string
	// CRDs is the path of the directory of CustomResourceDefinitions, "" if there is none.
	CRDs string
	// Enabled is the path of the enabled script, "" if there is none.
	Enabled string
	// FromAddon is true if the module is made from an addon.
	FromAddon bool
	// Addon describes the registered addon that the module is made from; it is nil for other modules. It can be nil if
	// the module cannot be loaded.
	Addon *Addon
	// Flags has one decision for each values file that enables or disables the module, from low to high precedence.
	Flags []Decision
	// Broken is the error that prevents the module from being loaded; nil if there is none. If Broken is not nil,
	// fields other than Name, Order, Path and FromAddon may be incomplete.
	Broken error
}

// BrokenBy returns the error that prevents the module from being loaded, or nil if there is none. The error is m.Broken
// or, if m.Broken is nil, the error of the module in the map hooks. This map has the errors of hooks, by the name of
// their module.
func (m *Module) BrokenBy(hooks map[string]error) error {
	if m.Broken != nil {
		return m.Broken
	}
	if err := hooks[m.Name]; err != nil {
		return fmt.Errorf("module %s: %w", m.Name, err)
	}
	return nil
}

// The names of files and directories that are the parts of a module.
const (
	chartFile    = "Chart.yaml"
	templatesDir = "templates"
	hooksDir     = "hooks"
	crdsDir      = "crds"
	enabledFile  = "enabled"
)

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// parseDirName splits the name of a module's directory into the order and the name of the module. If dir has no
// number, or if the number is too large, the order is the argument unnumbered.
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

// load reads the module in the directory m.Path. It sets the fields for the parts of the module, and Broken if it finds
// an error. It returns the content of the module's values file, and warnings.
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

// findParts sets the fields for the parts that it finds in the module's directory.
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
			warnings = append(warnings, m.Hooks+" is not a directory: the module has no hooks")
			m.Hooks = ""
		}
	}
	if parts[crdsDir].IsDir() {
		m.CRDs = filepath.Join(m.Path, crdsDir)
	} else if _, found := parts[crdsDir]; found {
		warnings = append(warnings, filepath.Join(m.Path, crdsDir)+" is not a directory: the module installs no CustomResourceDefinitions")
	}
	if mode, found := parts[enabledFile]; found {
		m.Enabled = filepath.Join(m.Path, enabledFile)
		switch {
		case !mode.IsRegular():
			return warnings, fmt.Errorf("%s is not a file, so it is unknown whether the module may be enabled: replace it by a script, or remove it", m.Enabled)
		case mode.Perm()&0o111 == 0:
			return warnings, fmt.Errorf("%s cannot be executed, so it is unknown whether the module may be enabled: chmod +x it, or remove it", m.Enabled)
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

// readParts returns the file modes of the parts in a module's directory, by name. If the name of the chart file has
// the wrong case, misspelt is the path of this file.
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

// chartOf returns the kind of chart in a module's directory path. The arguments parts and misspelt are the results of
// readParts.
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
