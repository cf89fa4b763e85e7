// Package addons describes the registered addons and the addons configurations for people and for metrics. Package
// addons also makes the catalogs for service brokers.
package addons

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/internal/text"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// A List has all addons configurations and all registered addons.
type List struct {
	Configurations []Configuration `json:"configurations"`
	Addons         []Line          `json:"addons"`
}

// A Configuration is the state of one addons configuration, which the operator processes in rounds. Processed is the
// time at which the latest round ended, or zero while the round runs. Retry is the time of the next round, or zero if
// no retry is planned.
type Configuration struct {
	// Namespace is empty for a ClusterAddonsConfiguration.
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name"`
	Phase      string    `json:"phase"`
	Generation int64     `json:"generation"`
	Processed  time.Time `json:"processed,omitzero"`
	Retry      time.Time `json:"retry,omitzero"`
}

// A Line is one registered addon.
type Line struct {
	Namespace     string `json:"namespace,omitempty"`
	ID            string `json:"id"`
	Name          string `json:"name"`
	Version       string `json:"version"`
	Configuration string `json:"configuration"`
	URL           string `json:"url"`
	// Module is the module that is made from the addon; empty if no module is made from it.
	Module string `json:"module,omitempty"`
	// Orphaned is set if the module is still in use, although the configuration provides no modules.
	Orphaned bool `json:"orphaned,omitempty"`
}

// An Addon is a registered addon with its content.
type Addon struct {
	Line

	Addon  *catalog.Addon `json:"addon"`
	Advice []string       `json:"advice,omitempty"`
}

// A Why has the results of the latest round of a configuration.
type Why struct {
	Configuration

	// Notice describes a part of the configuration that has no effect.
	Notice string `json:"notice,omitempty"`
	// Registered is set if addons of the configuration are registered. While a round runs, these are the addons of an
	// earlier round.
	Registered   bool         `json:"registered"`
	Attempts     int          `json:"attempts,omitempty"`
	Repositories []Repository `json:"repositories"`
}

// A Repository has the results of a repository that a configuration names.
type Repository struct {
	URL     string    `json:"url"`
	Problem *Problem  `json:"problem,omitempty"`
	Addons  []Problem `json:"addons,omitempty"`
	// Good is the number of addons without a problem.
	Good int `json:"good"`
}

// A Problem is the reason why a repository cannot be read, or why an addon is not ready.
type Problem struct {
	Addon   string     `json:"addon,omitempty"`
	Version string     `json:"version,omitempty"`
	Reason  api.Reason `json:"reason"`
	Message string     `json:"message"`
	// Permanent is set if another attempt would fail in the same way.
	Permanent bool `json:"permanent,omitempty"`
	// Remedy says what a person must do.
	Remedy string `json:"remedy"`
}

// An UnknownError is the error for an addon or a configuration that the store does not have.
type UnknownError struct{ text string }

func (e *UnknownError) Error() string { return e.text }

func unknown(format string, args ...any) error {
	return &UnknownError{fmt.Sprintf(format, args...)}
}

// Registered returns all configurations and all registered addons, sorted by namespace and name. Addons with the same
// name are sorted by version.
func Registered(tx *store.Tx) (p List, err error) {
	p = List{Configurations: []Configuration{}, Addons: []Line{}}
	for c, err := range registry.Configurations(tx) {
		if err != nil {
			return p, err
		}
		p.Configurations = append(p.Configurations, configurationLineOf(c))
	}
	slices.SortFunc(p.Configurations, func(a, b Configuration) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	made, err := loadMadeModules(tx)
	if err != nil {
		return p, err
	}
	for a, err := range registry.All(tx) {
		if err != nil {
			return p, err
		}
		p.Addons = append(p.Addons, made.lineOf(a))
	}
	slices.SortStableFunc(p.Addons, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), catalog.CompareVersions(a.Version, b.Version))
	})
	return p, nil
}

func configurationLineOf(c registry.Configuration) Configuration {
	return Configuration{
		Namespace: string(c.Scope), Name: c.Name, Phase: string(c.Phase), Generation: c.Generation,
		Processed: c.Processed, Retry: c.Retry,
	}
}

// madeModules are the modules that are made from addons.
type madeModules struct {
	names    map[string]string // by the digest of the content of the addon
	orphaned map[string]bool   // by the name of the module
}

func loadMadeModules(tx *store.Tx) (madeModules, error) {
	made := madeModules{names: map[string]string{}, orphaned: map[string]bool{}}
	records, err := store.LoadAddonModules(tx)
	if err != nil {
		return made, err
	}
	for name, m := range records {
		made.names[m.Content] = name
	}
	problems, err := store.AllProblems(tx)
	for _, problem := range problems {
		if problem.Kind == store.OrphanedModule {
			made.orphaned[problem.Subject.Module] = true
		}
	}
	return made, err
}

// lineOf returns the line of the addon a, with the module that is made from it.
func (made madeModules) lineOf(a registry.Addon) Line {
	line := Line{Namespace: string(a.Scope), ID: a.ID, Name: a.Name, Version: a.Version, Configuration: a.Configuration, URL: a.URL}
	if a.Scope == registry.Cluster {
		line.Module = made.names[a.Content]
		line.Orphaned = made.orphaned[line.Module]
	}
	return line
}

// Get returns the registered addon whose ID is name. The ID of an addon in a namespace is written as NAMESPACE/ID. If
// name is not an ID but the name of an addon, the error lists the IDs of this addon.
func Get(tx *store.Tx, name string) (p Addon, err error) {
	var ids []string
	for a, err := range registry.All(tx) {
		if err != nil {
			return p, err
		}
		id := api.Identity{Namespace: string(a.Scope), Name: a.ID}.String()
		if a.Name == name || (api.Identity{Namespace: string(a.Scope), Name: a.Name}).String() == name {
			ids = append(ids, id)
		}
		if id != name {
			continue
		}
		made, err := loadMadeModules(tx)
		if err != nil {
			return p, err
		}
		content, _, err := registry.LoadContent(tx, a.Content)
		return Addon{Line: made.lineOf(a), Addon: content.Addon, Advice: content.Advice}, err
	}
	if len(ids) > 0 {
		return p, unknown("%q is the name of an addon, not an ID; ask for one of %s", name, strings.Join(ids, ", "))
	}
	return p, unknown("no registered addon has the ID %q; see addon-operator addons list, and write NAMESPACE/ID for one of a namespace", name)
}

// Explain returns the results of the latest round of a configuration.
func Explain(tx *store.Tx, name string) (p Why, err error) {
	id := api.ParseIdentity(name)
	scope := registry.Scope(id.Namespace)
	c, ok, err := registry.Lookup(tx, scope, id.Name)
	if err != nil {
		return p, err
	}
	if !ok {
		return p, unknown("configuration %q is not known; see addon-operator addons list, and write NAMESPACE/NAME for an AddonsConfiguration", id)
	}
	p = Why{
		Configuration: configurationLineOf(registry.Configuration{Scope: scope, Name: id.Name, Configuration: c}),
		Registered:    !c.Registered.IsZero(), Attempts: c.Attempts, Repositories: []Repository{},
	}
	if c.Modules && id.Namespace != "" {
		p.Notice = modules.NoModulesOfNamespaces
	}
	results, err := registry.Results(tx, c.Round)
	if err != nil {
		return p, err
	}
	for _, r := range results {
		one := Repository{URL: r.URL}
		if r.Reason != "" {
			one.Problem = problemOf(r.Reason, r.Message, r.Permanent, r.Fix)
		}
		for _, a := range r.Addons {
			if a.Reason == "" {
				one.Good++
				continue
			}
			problem := problemOf(a.Reason, a.Message, a.Permanent, fixOf(a))
			problem.Addon, problem.Version = cmp.Or(a.Name, a.Entry), cmp.Or(a.Version, a.EntryVersion)
			one.Addons = append(one.Addons, *problem)
		}
		p.Repositories = append(p.Repositories, one)
	}
	return p, nil
}

// fixOf returns what a person must do about a failed addon. fixOf returns "" if the general remedy
// for the reason of the failure applies.
func fixOf(a store.AddonResult) string {
	switch {
	case a.EntryError != "":
		return fmt.Sprintf("correct the entry of %q with version %q in the index of the repository", a.Entry, a.EntryVersion)
	case a.ImageModule != "":
		return fmt.Sprintf("rename the addon, or remove annotation %s from the configuration (this has no effect with --addons-modules): the image already has a module %s", api.ModulesAnnotation, a.ImageModule)
	}
	return ""
}

func problemOf(reason, message string, permanent bool, fix string) *Problem {
	problem := &Problem{
		Reason: api.Reason(reason), Message: message, Permanent: permanent, Remedy: cmp.Or(fix, api.Reason(reason).Remedy()),
	}
	if permanent && fix == "" {
		problem.Remedy = "correct the URL; or correct its Secret, and then increment spec.reprocessRequest, because Secrets are not watched; a retry alone fails in the same way"
	}
	return problem
}

// orCluster returns namespace, or "(cluster)" if it is empty, for tables.
func orCluster(namespace string) string {
	if namespace == "" {
		return "(cluster)"
	}
	return namespace
}

// ListText returns the list as two tables.
func ListText(p *List, layout inspect.Layout) string {
	configurations := [][]string{{"NAMESPACE", "CONFIGURATION", "PHASE", "GENERATION"}}
	for _, c := range p.Configurations {
		configurations = append(configurations, []string{orCluster(c.Namespace), c.Name, c.Phase, fmt.Sprint(c.Generation)})
	}
	addons := [][]string{{"NAMESPACE", "ADDON", "VERSION", "CONFIGURATION", "ID", "MODULE"}}
	for _, a := range p.Addons {
		module := cmp.Or(a.Module, "-")
		if a.Orphaned {
			module += " (orphaned)"
		}
		addons = append(addons, []string{orCluster(a.Namespace), a.Name, a.Version, a.Configuration, a.ID, module})
	}
	return layout.Table(configurations) + "\n" + layout.Table(addons)
}

// printable returns a blank for a character that a terminal would interpret, and any other
// character unchanged. printable keeps newlines.
func printable(r rune) rune {
	if r != '\n' && !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// WhyText returns the page of the command "addons why" as text.
func WhyText(p *Why, layout inspect.Layout) string {
	var out strings.Builder
	// line replaces control characters, because names and messages are from the authors of
	// repositories, who must not control the terminal of the reader.
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintln(&out, strings.Map(printable, fmt.Sprintf(format, args...)))
	}
	line("%s is %s (generation %d).", api.Identity{Namespace: p.Namespace, Name: p.Name}, p.Phase, p.Generation)
	switch {
	case p.Phase == string(api.Pending) && p.Registered:
		line("It is being processed. Its old addons stay registered until the processing ends.")
	case p.Phase == string(api.Pending):
		line("It is being processed.")
	case p.Registered:
		line("All its addons are registered.")
	default:
		line("None of its addons is registered: all of them must be ready.")
	}
	if !p.Retry.IsZero() {
		attempt := ""
		if p.Attempts > 0 {
			attempt = fmt.Sprintf(" (attempt %d)", p.Attempts+1)
		}
		line("The next retry is due at %s%s.", layout.Stamp(p.Retry), attempt)
	}
	if p.Notice != "" {
		line("The %s.", p.Notice)
	}
	for _, r := range p.Repositories {
		if r.Problem != nil {
			line("\nRepository %q could not be read.", r.URL)
		} else {
			line("\nRepository %q: %s ready, %d failed.", r.URL, text.Count(r.Good, "addon is", "addons are"), len(r.Addons))
		}
		if r.Problem != nil {
			line("  %s: %s\n  To do: %s.", r.Problem.Reason, r.Problem.Message, r.Problem.Remedy)
		}
		for _, a := range r.Addons {
			line("  %s %s: %s: %s\n    To do: %s.", a.Addon, a.Version, a.Reason, a.Message, a.Remedy)
		}
	}
	return out.String()
}
