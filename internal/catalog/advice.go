package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/lint/rules"
	"helm.sh/helm/v3/pkg/lint/support"
)

// advise returns the warnings and errors of helm lint for Chart.yaml, and warnings about missing dependencies. It runs
// no rules of helm lint that render templates or read the schema: a template can use any amount of memory, and a schema
// can refer to any URL.
func advise(files []file, ch *chart.Chart) []string {
	advice, err := lintChartFile(files)
	if err != nil {
		advice = append(advice, fmt.Sprintf("helm lint was not run: %v", err))
	}
	vendored := map[string]bool{}
	for _, dependency := range ch.Dependencies() {
		vendored[dependency.Name()] = true
	}
	for _, dependency := range ch.Metadata.Dependencies {
		if dependency != nil && !vendored[dependency.Name] {
			advice = append(advice, fmt.Sprintf("[WARNING] %s: chart directory is missing the dependency %s; run helm dependency update", chartFile, dependency.Name))
		}
	}
	return advice
}

// lintChartFile runs the rules of helm lint for Chart.yaml. The rules read Chart.yaml from a directory, so
// lintChartFile writes it to a temporary directory.
func lintChartFile(files []file) (advice []string, err error) {
	i := slices.IndexFunc(files, func(f file) bool { return f.name == chartFile })
	if i < 0 {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "addon-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // if this fails, the file stays in the directory for temporary files
	if err := os.WriteFile(filepath.Join(dir, chartFile), files[i].data, 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // Helm can panic on untrusted text
			err = fmt.Errorf("helm lint failed: %v", r)
		}
	}()
	linter := support.Linter{ChartDir: dir}
	rules.Chartfile(&linter)
	for _, message := range linter.Messages {
		if message.Severity >= support.WarningSev {
			advice = append(advice, strings.ReplaceAll(message.Error(), dir+string(filepath.Separator), ""))
		}
	}
	return advice, nil
}
