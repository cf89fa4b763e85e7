package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"addon-operator/internal/module"
)

const (
	chartFile    = "Chart.yaml"
	templatesDir = "templates"

	// bareChartVersion is the chart version of a module without Chart.yaml. It is the same as in flant/addon-operator.
	bareChartVersion = "0.2.0"
)

// hiddenTemplates is the beginning of the paths that Helm ignores in each chart. A volume with a ConfigMap has each
// file twice, once in a directory whose name begins with a dot.
const hiddenTemplates = templatesDir + "/."

// Release describes a release that the caller wants to render or install.
type Release struct {
	// Name is the module's name: lower case, at most 53 characters.
	Name string

	// ChartDir is the module's directory. It contains Chart.yaml, or at least templates/. The chart name in Chart.yaml
	// does not change the name of the release. Templates see it as .Chart.Name.
	ChartDir string

	// Maintained adds maintenanceLabel to the objects. The label marks objects that the operator does not reconcile, so
	// that people can change them. Maintained is also recorded with the revision.
	Maintained bool

	// Addon says that the chart belongs to a registered addon. Addon is recorded with the revision, see [State.Addon].
	Addon bool

	// Values override the values of the chart. They are not modified, and must be representable as JSON.
	Values map[string]any

	// EnabledModules becomes the value of .Values.global.enabledModules. The value is not set if EnabledModules is nil,
	// or if the chart's values.schema.json rejects the values with enabledModules but accepts the values without it.
	EnabledModules []string
}

// load reads the chart of the release from disk. Each action must load the chart again, because Helm actions modify
// charts, and hooks may change the directory at any time. Loading a small chart takes less than a millisecond.
func (r Release) load() (*chart.Chart, error) {
	read := loadBare
	if _, err := os.Stat(filepath.Join(r.ChartDir, chartFile)); err == nil {
		read = func(string, string) (*chart.Chart, error) { return loader.LoadDir(r.ChartDir) }
	}
	ch, err := read(r.Name, r.ChartDir)
	if err != nil {
		return nil, fmt.Errorf("load the chart of release %q from %s: %w", r.Name, r.ChartDir, err)
	}
	return ch, nil
}

// loadBare loads a chart from a directory that has templates but no Chart.yaml. It leaves out module.OtherDirs,
// directories in dir whose names begin with a dot, such as .git, and hidden templates.
func loadBare(name, dir string) (*chart.Chart, error) {
	if _, err := os.Stat(filepath.Join(dir, templatesDir)); err != nil {
		return nil, fmt.Errorf("there is neither %s nor %s/: %w", chartFile, templatesDir, err)
	}
	about, err := json.Marshal(map[string]string{"apiVersion": chart.APIVersionV1, "name": name, "version": bareChartVersion})
	if err != nil {
		return nil, err
	}
	files := []*loader.BufferedFile{{Name: chartFile, Data: about}}
	for f, err := range module.Files(dir, isLeftOut) {
		switch {
		case strings.HasPrefix(f.Name, hiddenTemplates):
			continue
		case err != nil:
			return nil, err
		case f.Size > loader.MaxDecompressedFileSize:
			return nil, fmt.Errorf("%s has %d bytes, more than the %d bytes that Helm allows for a file of a chart: move the file, or write a %s and a .helmignore",
				f.Name, f.Size, loader.MaxDecompressedFileSize, chartFile)
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			return nil, err
		}
		files = append(files, &loader.BufferedFile{Name: f.Name, Data: data})
	}
	return loader.LoadFiles(files)
}

// isLeftOut reports whether the directory dir is not part of a chart without Chart.yaml.
func isLeftOut(dir string) bool {
	return slices.Contains(module.OtherDirs, path.Base(dir)) || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, hiddenTemplates)
}

// templateValues returns a copy of r.Values with the types that values from a file have: all numbers are float64. This
// makes a difference, because templates print large floats differently from integers.
func (r Release) templateValues() (chartutil.Values, error) {
	values := chartutil.Values{}
	if len(r.Values) == 0 {
		return values, nil
	}
	raw, err := json.Marshal(r.Values)
	if err == nil {
		err = json.Unmarshal(raw, &values)
	}
	if err != nil {
		return nil, fmt.Errorf("values of release %q are not JSON: %w", r.Name, err)
	}
	return values, nil
}

// prepare returns the loaded chart and the values for one Helm action.
func (r Release) prepare() (*chart.Chart, chartutil.Values, error) {
	if r.Name == "" {
		return nil, nil, errors.New("the requested release has no name")
	}
	ch, err := r.load()
	if err != nil {
		return nil, nil, err
	}
	values, err := r.templateValues()
	if err != nil || r.EnabledModules == nil {
		return ch, values, err
	}
	listed, err := r.listing(values)
	if err != nil || !refused(ch, listed) || refused(ch, values) {
		return ch, listed, err
	}
	return ch, values, nil
}

// listing returns a copy of values in which global.enabledModules is the list of enabled modules. The copy shares all
// sections except global with values.
func (r Release) listing(values chartutil.Values) (chartutil.Values, error) {
	const section = "global"
	global, isMap := values[section].(map[string]any)
	if !isMap && values[section] != nil {
		return nil, fmt.Errorf("values of release %q: %s is not a map", r.Name, section)
	}
	names := make([]any, len(r.EnabledModules))
	for i, name := range r.EnabledModules {
		names[i] = name
	}
	listed, under := maps.Clone(values), maps.Clone(global)
	if under == nil {
		under = map[string]any{}
	}
	under["enabledModules"] = names
	listed[section] = under
	return listed, nil
}

// refused reports whether values.schema.json of the chart, or of one of its dependencies, rejects the values.
func refused(ch *chart.Chart, values chartutil.Values) bool {
	if !hasSchema(ch) {
		return false
	}
	whole, err := chartutil.CoalesceValues(ch, values)
	return err == nil && chartutil.ValidateAgainstSchema(ch, whole) != nil
}

func hasSchema(ch *chart.Chart) bool {
	return len(ch.Schema) > 0 || slices.ContainsFunc(ch.Dependencies(), hasSchema)
}
