package author

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"addon-operator/internal/catalog"
	"addon-operator/internal/module"
)

// A Report contains the problems that [Repository.Lint] has found.
type Report struct {
	// Addons has a report for each addon, sorted by path.
	Addons []AddonReport `json:"addons"`
	// IndexProblems are the problems of index.yaml. If the file does not exist, there are none.
	IndexProblems []string `json:"indexProblems,omitempty"`
}

// An AddonReport contains the problems of one addon.
type AddonReport struct {
	// Path is the path of the addon's directory or archive, relative to the repository.
	Path string `json:"path"`
	// ID, Name and Version are empty if the addon cannot be loaded.
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Problems are errors of the addon. An addons configuration that names this repository gets the phase Failed
	// because of them, with one exception: if an archive differs from its directory, the operator uses the archive as
	// it is.
	Problems []string `json:"problems,omitempty"`
	// Errors mean that the chart cannot be installed with the values of a plan, or that the schema of a plan cannot be
	// used. They have no effect on the status of addons configurations.
	Errors []string `json:"errors,omitempty"`
	// Advice has findings that the author may ignore. They have no effect on the status of addons configurations.
	Advice []string `json:"advice,omitempty"`
}

// Failed returns the number of addons with problems or errors.
func (r *Report) Failed() (failed int) {
	for i := range r.Addons {
		if !r.Addons[i].ok() {
			failed++
		}
	}
	return failed
}

func (a *AddonReport) ok() bool { return len(a.Problems)+len(a.Errors) == 0 }

// Lint checks all addons of the repository, and index.yaml if it exists. For each addon that is a directory, Lint also
// renders the chart with the values of each plan.
func (r *Repository) Lint() (*Report, error) {
	report := &Report{}
	for _, a := range r.addons {
		about := AddonReport{Path: a.path}
		if a.err != nil {
			about.Problems = append(about.Problems, a.err.Error())
		} else {
			about.ID, about.Name, about.Version = a.loaded.Addon.ID, a.loaded.Addon.Name, a.loaded.Addon.Version
			about.Problems = append(r.conflicts(a), r.outdated(a)...)
			about.Advice = append(about.Advice, a.loaded.Advice...)
			r.check(a, &about)
		}
		report.Addons = append(report.Addons, about)
	}
	var err error
	report.IndexProblems, err = r.lintIndex()
	return report, err
}

// outdated returns a problem if the addon a is an archive, and the files of the directory with the same name and
// version differ from the files in the archive.
func (r *Repository) outdated(a *addon) []string {
	for _, dir := range r.addons {
		if !a.packed || dir.packed || dir.loaded == nil || dir.address()+archiveType != a.address() {
			continue
		}
		packed, err := catalog.Digest(a.fsys)
		current, dirErr := catalog.Digest(dir.fsys)
		if err = errors.Join(err, dirErr); err != nil {
			return []string{err.Error()}
		}
		if packed != current {
			return []string{fmt.Sprintf("it differs from the directory %s; run addon-operator addons package %s", dir.path, r.dir)}
		}
	}
	return nil
}

// check adds errors and advice to report, the report of the addon a. These errors and this advice have no effect on the
// status of addons configurations.
func (r *Repository) check(a *addon, report *AddonReport) {
	if a.path != a.address() {
		report.Advice = append(report.Advice, fmt.Sprintf("[WARNING] rename the addon to %s: an index refers to an addon by its name and version", a.address()))
	}
	checkPlans(a.loaded.Addon.Plans, report)
	if a.packed {
		return
	}
	for _, f := range r.helmLint(a) {
		if f.fatal {
			report.Errors = append(report.Errors, f.text)
		} else {
			report.Advice = append(report.Advice, f.text)
		}
	}
}

// checkPlans checks the values of each plan against create-instance-schema.json, the schema for values that users can
// set. It adds its findings to report, the report of the addon.
func checkPlans(plans []catalog.Plan, report *AddonReport) {
	for i := range plans {
		plan := module.AddonPlan{Name: plans[i].Name, Schema: plans[i].CreateSchema}
		var err error
		if plans[i].Values != nil {
			err = json.Unmarshal(plans[i].Values, &plan.Values)
		}
		var refused []string
		if err == nil {
			refused, err = plan.CheckValues()
		}
		dir := "plans/" + plans[i].Directory
		if err != nil {
			report.Errors = append(report.Errors, fmt.Sprintf("[ERROR] %s/create-instance-schema.json: %v", dir, err))
		}
		for _, violation := range refused {
			report.Advice = append(report.Advice, fmt.Sprintf("[WARNING] %s/values.yaml: %s; create-instance-schema.json does not let users set this value", dir, violation))
		}
	}
}

// lintIndex returns the problems of index.yaml. If the file does not exist, there are none.
func (r *Repository) lintIndex() (problems []string, err error) {
	text, err := r.root.ReadFile(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := catalog.ParseIndex(text)
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // the error is returned as a problem
	}
	listed := map[string]bool{}
	for _, entry := range entries {
		address := entry.Name + "-" + entry.Version
		switch {
		case entry.Err != nil:
			problems = append(problems, fmt.Sprintf("addon %s, version %s: %v", entry.Name, entry.Version, entry.Err))
		case !r.has(address):
			problems = append(problems, fmt.Sprintf("addon %s, version %s: there is neither a directory %s nor an archive %s%s", entry.Name, entry.Version, address, address, archiveType))
		}
		listed[address] = true
	}
	for _, a := range r.addons {
		if a.loaded != nil && !listed[strings.TrimSuffix(a.address(), archiveType)] && !listed[strings.TrimSuffix(a.path, archiveType)] {
			problems = append(problems, fmt.Sprintf("addon %s, version %s is not listed; run addon-operator addons index %s", a.loaded.Addon.Name, a.loaded.Addon.Version, r.dir))
		}
	}
	return dedupe(problems), nil
}

// has reports whether the repository has a directory called address, or an archive called address.tgz.
func (r *Repository) has(address string) bool {
	for _, a := range r.addons {
		if a.path == address || a.packed && a.path == address+archiveType {
			return true
		}
	}
	return false
}

func dedupe(texts []string) (unique []string) {
	seen := map[string]bool{}
	for _, text := range texts {
		if !seen[text] {
			unique = append(unique, text)
		}
		seen[text] = true
	}
	return unique
}

// Text returns the report as text for a terminal.
func (r *Report) Text() string {
	var out bytes.Buffer
	for i := range r.Addons {
		a := &r.Addons[i]
		result := "OK"
		if !a.ok() {
			result = "FAILED"
		}
		fmt.Fprintf(&out, "%s: %s\n", a.Path, result)
		writeLines(&out, "problem", a.Problems)
		writeLines(&out, "error", a.Errors)
		writeLines(&out, "advice", a.Advice)
	}
	if len(r.IndexProblems) > 0 {
		fmt.Fprintf(&out, "%s: FAILED\n", indexFile)
		writeLines(&out, "problem", r.IndexProblems)
	}
	return out.String()
}

func writeLines(out *bytes.Buffer, label string, texts []string) {
	for _, text := range texts {
		fmt.Fprintf(out, "  %s: %s\n", label, strings.ReplaceAll(text, "\n", "\n    "))
	}
}
