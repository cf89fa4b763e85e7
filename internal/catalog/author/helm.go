package author

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/lint/rules"
	"helm.sh/helm/v3/pkg/lint/support"

	"addon-operator/internal/catalog"
)

// helmLint returns what helm lint finds when it renders the chart with the values of each plan.
func (r *Repository) helmLint(a *addon) (advice []string) {
	charts, err := filepath.Glob(filepath.Join(r.dir, a.path, "chart", "*", "Chart.yaml"))
	if err != nil || len(charts) != 1 {
		return []string{fmt.Sprintf("[WARNING] helm lint was not run: found %d charts", len(charts))}
	}
	plans := a.loaded.Addon.Plans
	found := map[string][]string{} // names of plans by finding
	var findings []string
	for i := range plans {
		for _, finding := range lintTemplates(filepath.Dir(charts[0]), &plans[i]) {
			if found[finding] == nil {
				findings = append(findings, finding)
			}
			if !slices.Contains(found[finding], plans[i].Directory) {
				found[finding] = append(found[finding], plans[i].Directory)
			}
		}
	}
	for _, finding := range findings {
		if of := found[finding]; len(of) < len(plans) {
			finding += " (with plan " + strings.Join(of, ", ") + ")"
		}
		advice = append(advice, finding)
	}
	return advice
}

func lintTemplates(dir string, plan *catalog.Plan) (findings []string) {
	defer func() {
		if r := recover(); r != nil { // in Helm
			findings = append(findings, fmt.Sprintf("[WARNING] helm lint failed: %v", r))
		}
	}()
	values := map[string]any{}
	if plan.Values != nil {
		if err := json.Unmarshal(plan.Values, &values); err != nil {
			return []string{fmt.Sprintf("[WARNING] helm lint was not run: %v", err)}
		}
	}
	linter := support.Linter{ChartDir: dir}
	rules.ValuesWithOverrides(&linter, values)
	rules.Templates(&linter, values, "default", false)
	for _, message := range linter.Messages {
		if message.Severity >= support.WarningSev {
			findings = append(findings, strings.ReplaceAll(message.Error(), dir+string(filepath.Separator), ""))
		}
	}
	return findings
}
