package author

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/lint/rules"
	"helm.sh/helm/v3/pkg/lint/support"

	"addon-operator/internal/catalog"
)

// A finding is a message of helm lint.
type finding struct {
	text string
	// fatal means that the chart cannot be installed.
	fatal bool
}

// helmLint renders the chart of the addon a with the values of each plan, and returns the findings of helm lint. If a
// finding concerns only some plans, its text names them.
func (r *Repository) helmLint(a *addon) (all []finding) {
	dir := filepath.Join(r.dir, a.path)
	charts, err := fs.Glob(os.DirFS(dir), "chart/*/Chart.yaml")
	if err != nil || len(charts) != 1 {
		return []finding{{text: fmt.Sprintf("[WARNING] helm lint was not run: found %d charts", len(charts))}}
	}
	plans := a.loaded.Addon.Plans
	found := map[finding][]string{} // names of plans
	for i := range plans {
		for _, f := range lintTemplates(filepath.Join(dir, filepath.Dir(charts[0])), &plans[i]) {
			if found[f] == nil {
				all = append(all, f)
			}
			if !slices.Contains(found[f], plans[i].Directory) {
				found[f] = append(found[f], plans[i].Directory)
			}
		}
	}
	for i, f := range all {
		if of := found[f]; len(of) < len(plans) {
			all[i].text += " (with plan " + strings.Join(of, ", ") + ")"
		}
	}
	return all
}

// lintTemplates runs helm lint on the chart in dir with the values of the plan. It checks the values against
// values.schema.json, and renders the templates.
func lintTemplates(dir string, plan *catalog.Plan) (findings []finding) {
	defer func() {
		if r := recover(); r != nil { // Helm can panic
			findings = append(findings, finding{text: fmt.Sprintf("[WARNING] helm lint failed: %v", r)})
		}
	}()
	values := map[string]any{}
	if plan.Values != nil {
		if err := json.Unmarshal(plan.Values, &values); err != nil {
			return []finding{{text: fmt.Sprintf("[WARNING] helm lint was not run: %v", err)}}
		}
	}
	linter := support.Linter{ChartDir: dir}
	rules.ValuesWithOverrides(&linter, values)
	rules.Templates(&linter, values, "default", false)
	for _, message := range linter.Messages {
		if message.Severity >= support.WarningSev {
			findings = append(findings, finding{
				text:  strings.ReplaceAll(message.Error(), dir+string(filepath.Separator), ""),
				fatal: message.Severity >= support.ErrorSev && !onlyMissing(message.Err.Error()),
			})
		}
	}
	return findings
}

// onlyMissing reports whether a message has schema violations, and all of them are missing values. Missing values are
// not an error of the addon, because it may expect that users set these values in the ConfigMap.
func onlyMissing(message string) bool {
	missing := false
	for line := range strings.Lines(message) {
		if violation, ok := strings.CutPrefix(strings.TrimSpace(line), "- at "); ok {
			if !strings.Contains(violation, ": missing propert") {
				return false
			}
			missing = true
		}
	}
	return missing
}
