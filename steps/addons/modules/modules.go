// Package modules makes modules from registered addons. It selects the version of each addon, and
// keeps the files of the addons whose modules are in use.
package modules

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Selection has the modules that are made from addons in the registry of the cluster.
type Selection struct {
	// Modules are sorted by name. Their charts are read from the store.
	Modules []module.AddonModule
	// Problems has the addons that cannot be used as modules, the modules whose addons are no longer registered, and
	// the AddonsConfigurations on which the annotation for modules has no effect. [Provided.Choose] adds a problem if
	// the modules could not be written.
	Problems []store.Problem
}

// Contents returns the name of the content from which each module is made, by the name of the module.
func (s Selection) Contents() map[string]string {
	contents := map[string]string{}
	for _, m := range s.Modules {
		contents[m.Name] = m.Addon.Content
	}
	return contents
}

// Select returns the modules that can be made from the addons of the cluster. For each addon it selects the version
// that the section of the module names, or the highest version if the section names none. If no registered addon has
// this version, a module in use keeps its current content. It also keeps a higher version whose configuration is not
// Ready. If the argument all is true, the addons of every ClusterAddonsConfiguration can be used as modules; otherwise
// only the addons of configurations with the annotation for modules can. The argument sections has the sections of the
// ConfigMap, by key. The argument image has the paths of the modules in the operator's image, by name. No addon becomes
// a module with one of these names.
func Select(db *store.DB, all bool, sections values.Values, image map[string]string) (Selection, error) {
	var selected Selection
	err := db.View(func(tx *store.Tx) (err error) {
		selected, err = selectIn(tx, all, sections, image)
		return err
	})
	for i := range selected.Modules {
		content := selected.Modules[i].Addon.Content
		selected.Modules[i].Chart = func() (fs.FS, error) { return chart(db, content) }
	}
	return selected, err
}

// Expected reports whether a cluster-wide configuration that can provide modules is being processed for the first
// time. If the argument all is true, every cluster-wide configuration can provide modules; otherwise only
// configurations with the annotation for modules can.
func Expected(tx *store.Tx, all bool) (bool, error) {
	for c, err := range registry.ConfigurationsIn(tx, registry.Cluster) {
		if err != nil {
			return false, err
		}
		first := c.Phase == store.PhasePending && c.Registered.IsZero() && c.Earlier.IsZero()
		if first && (all || c.Modules) {
			return true, nil
		}
	}
	return false, nil
}

// Outdated compares the modules that [Select] would return with the modules that [Save] has saved. If modules or
// their contents differ, it returns a text that lists the modules of Select. Otherwise it returns "".
func Outdated(tx *store.Tx, all bool, sections values.Values, image map[string]string) (string, error) {
	saved, err := store.LoadAddonModules(tx)
	if err != nil {
		return "", err
	}
	selected, err := selectIn(tx, all, sections, image)
	if err != nil {
		return "", err
	}
	outdated := false
	var text []string
	for _, m := range selected.Modules {
		outdated = outdated || saved[m.Name].Content != m.Addon.Content
		delete(saved, m.Name)
		text = append(text, m.Name+"="+m.Addon.Content)
	}
	if !outdated && len(saved) == 0 {
		return "", nil
	}
	return "modules made from addons: " + strings.Join(text, " "), nil
}

// A Made describes a module that was made from an addon.
type Made struct {
	Addon   string `json:"addon"`
	Version string `json:"version"`
	// Configuration is the name of the ClusterAddonsConfiguration that provides the version; empty if no
	// configuration provides it.
	Configuration string `json:"configuration,omitempty"`
	Plan          string `json:"plan"`
	// PlanByDefault is true if the addon has several plans and the section of the module selects
	// none of them.
	PlanByDefault bool `json:"planByDefault,omitempty"`
}

// List returns the modules that the last discovery has made from addons, by name. It leaves out modules whose content
// cannot be read. The argument sections has the sections of the ConfigMap, by key.
func List(tx *store.Tx, sections values.Values) (map[string]Made, error) {
	saved, err := store.LoadAddonModules(tx)
	if err != nil || len(saved) == 0 {
		return nil, err
	}
	offered := map[string]string{} // names of configurations, by the content that they provide
	for a, err := range registry.In(tx, registry.Cluster) {
		if err != nil {
			return nil, err
		}
		offered[a.Content] = a.Configuration
	}
	problems, err := store.AllProblems(tx)
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if p.Kind == store.OrphanedModule {
			delete(offered, saved[p.Subject.Module].Content)
		}
	}
	all := map[string]Made{}
	s := selecting{tx: tx}
	for name, m := range saved {
		addon, err := s.load(m.Content)
		if err != nil {
			continue // Select reports the problem
		}
		section, _ := sections[values.Camel(name)].(map[string]any)
		made := Made{Addon: addon.Name, Version: addon.Version, Configuration: offered[m.Content]}
		made.Plan, made.PlanByDefault = addon.Plan(section)
		all[name] = made
	}
	return all, nil
}

// Save records the modules that are made from addons, and deletes the records of other modules. The argument contents
// has the name of the content of each module, by the name of the module. The argument used is a function that reports
// whether a module is in use. The store keeps the contents of the modules that are in use.
func Save(tx *store.Tx, contents map[string]string, used func(module string) bool) error {
	saved, err := store.LoadAddonModules(tx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		if _, selected := contents[name]; !selected {
			tx.Delete(store.AddonModuleKey(name))
			if err := hold(tx, name, ""); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		next := store.AddonModule{Content: contents[name], Used: used(name)}
		if saved[name] == next {
			continue
		}
		if err := SaveOne(tx, name, next); err != nil {
			return err
		}
	}
	return nil
}

// SaveOne saves the record m of one module. If m.Used is true, the store keeps the content of the module.
func SaveOne(tx *store.Tx, name string, m store.AddonModule) error {
	content := m.Content
	if !m.Used {
		content = ""
	}
	return errors.Join(store.Save(tx, store.AddonModuleKey(name), m), hold(tx, name, content))
}

// Release records that a module made from an addon is not in use. After that, the store can delete the content of the
// addon. If the record of the module cannot be read, Release deletes it, and the next discovery writes it again.
func Release(tx *store.Tx, name string) error {
	m, ok, err := store.Load[store.AddonModule](tx, store.AddonModuleKey(name))
	if errors.As(err, new(*store.RecordError)) {
		tx.Delete(store.AddonModuleKey(name))
		return hold(tx, name, "")
	}
	if err != nil || !ok || !m.Used {
		return err
	}
	return SaveOne(tx, name, store.AddonModule{Content: m.Content})
}

// hold makes the module a holder of content, and of no other content. If content is empty, the module holds none. If
// the content is not in the store, hold does nothing. If the budget of tx is too small to release all old contents, the
// next call for the module releases the remaining ones.
func hold(tx *store.Tx, name, content string) error {
	if c, stored, err := store.Load[store.Content](tx, store.ContentKey(content)); content != "" && (err != nil || !stored || !c.Complete) {
		return err
	}
	_, err := registry.HoldAs(tx, name, content)
	return err
}

// NoModulesOfNamespaces is the reason why the annotation for modules has no effect on an
// AddonsConfiguration.
const NoModulesOfNamespaces = "annotation " + api.ModulesAnnotation + " has no effect: only addons of a ClusterAddonsConfiguration can be used as modules"

// A choice is an addon from which a module can be made, with the versions among which Select chooses.
type choice struct {
	addon   string           // its name
	offered []registry.Addon // the registered versions of the addon
	used    string           // the content that the module uses; empty if the module is not in use
}

// A selecting is the state of the selection of modules in one transaction.
type selecting struct {
	tx       *store.Tx
	sections values.Values
	image    map[string]string        // paths of modules in the operator's image, by name
	choices  map[string]*choice       // by module
	hidden   map[string]string        // configurations whose addons cannot be used as modules, by content
	failed   []registry.Configuration // configurations that provide modules, but have no registered addons
	made     Selection
}

func selectIn(tx *store.Tx, all bool, sections values.Values, image map[string]string) (Selection, error) {
	s := selecting{tx: tx, sections: sections, image: image, choices: map[string]*choice{}, hidden: map[string]string{}}
	if err := s.collectUsed(); err != nil { // called first, because the addons of modules in use have precedence
		return Selection{}, err
	}
	if err := s.collectRegistered(all); err != nil {
		return Selection{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.choices)) {
		s.choose(name, s.choices[name])
	}
	return s.made, nil
}

func (s *selecting) problem(kind store.ProblemKind, name, object, what, fix string) {
	s.made.Problems = append(s.made.Problems, store.Problem{
		Kind: kind, Subject: graph.Subject{Module: name}, Object: object, Error: what, Fix: fix,
	})
}

// collectRegistered adds the registered addons that can be used as modules to s.choices.
func (s *selecting) collectRegistered(all bool) error {
	usable := map[string]bool{} // by configuration
	for c, err := range registry.Configurations(s.tx) {
		switch {
		case err != nil:
			return err
		case c.Scope == registry.Cluster:
			if usable[c.Name] = all || c.Modules; usable[c.Name] && c.Registered.IsZero() {
				s.failed = append(s.failed, c)
			}
		case c.Modules:
			s.made.Problems = append(s.made.Problems, store.Problem{
				Kind: store.UnusableAddon, Subject: graph.Subject{Configuration: api.Identity{Namespace: string(c.Scope), Name: c.Name}.String()},
				Error: fmt.Sprintf("AddonsConfiguration %s/%s: %s", c.Scope, c.Name, NoModulesOfNamespaces), Fix: "register the addons in a ClusterAddonsConfiguration, or remove the annotation",
			})
		}
	}
	for a, err := range registry.In(s.tx, registry.Cluster) {
		if err != nil {
			return err
		}
		if usable[a.Configuration] {
			s.collect(a)
		} else {
			s.hidden[a.Content] = a.Configuration
		}
	}
	return nil
}

// collect adds a registered addon to s.choices. If the addon cannot be used as a module, collect instead adds a problem
// to the selection.
func (s *selecting) collect(a registry.Addon) {
	name, err := module.AddonModuleName(a.Name)
	if err != nil {
		s.problem(store.UnusableAddon, "", a.Name, fmt.Sprintf("addon %s cannot be used as a module: %v", a.Name, err), "rename the addon")
		return
	}
	if path, taken := s.image[name]; taken {
		s.problem(store.UnusableAddon, "", a.Name,
			fmt.Sprintf("addon %s %s cannot be used as a module: module %s of the image (%s) has the same name", a.Name, a.Version, name, path),
			"rename the addon, or remove the module from the image")
		return
	}
	c := s.choice(name)
	switch c.addon {
	case "":
		c.addon = a.Name
	case a.Name:
	default:
		s.problem(store.UnusableAddon, "", a.Name,
			fmt.Sprintf("addon %s cannot be used as a module: module %s is made from addon %s", a.Name, name, c.addon), "rename one of the addons")
		return
	}
	c.offered = append(c.offered, a)
}

// collectUsed adds the contents of modules that are in use to s.choices.
func (s *selecting) collectUsed() error {
	saved, err := store.LoadAddonModules(s.tx)
	for name, m := range saved {
		if _, taken := s.image[name]; m.Used && !taken {
			c := s.choice(name)
			c.used = m.Content
			if addon, err := s.load(m.Content); err == nil {
				c.addon = addon.Name
			}
		}
	}
	return err
}

func (s *selecting) choice(name string) *choice {
	c, known := s.choices[name]
	if !known {
		c = &choice{}
		s.choices[name] = c
	}
	return c
}

// choose adds the module with this name to the selection. It makes the module from the version that the section of
// the module names, or else from the highest version; see [selecting.pick]. If c has no such version, choose adds a
// problem, and the selection keeps the content that the module uses, if any.
func (s *selecting) choose(name string, c *choice) {
	key := values.Camel(name)
	wanted := ""
	if section, ok := s.sections[key].(map[string]any); ok && section[module.AddonVersionKey] != nil {
		wanted = fmt.Sprint(section[module.AddonVersionKey])
	}
	available := "set " + module.AddonVersionKey + " in section " + key + " to one of " + versions(c.offered)
	content, failed := s.pick(c, wanted)
	unchosen := content == "" && c.used != ""
	switch {
	case unchosen:
		content = c.used
	case content == "":
		s.problem(store.UnusableAddon, name, "", fmt.Sprintf("addon %s has no registered version %s", c.addon, wanted), available)
		return
	}
	addon, err := s.load(content)
	if err != nil {
		s.problem(store.UnusableAddon, name, "", fmt.Sprintf("the addon of module %s cannot be used: %v", name, err),
			"increment spec.reprocessRequest of its ClusterAddonsConfiguration")
		if c.used != "" { // the chart cannot be read, so the directory of the module stays as it is
			s.made.Modules = append(s.made.Modules, module.AddonModule{Name: name, Addon: module.Addon{Content: c.used}})
		}
		return
	}
	switch registered := slices.ContainsFunc(c.offered, func(a registry.Addon) bool { return a.Content == c.used }); {
	case unchosen && registered:
		s.problem(store.UnusableAddon, name, "",
			fmt.Sprintf("addon %s has no registered version %s; module %s still uses %s", addon.Name, wanted, name, addon.Version), available)
	case unchosen:
		fix, uninstall := available, ", or set "+values.Flag(key)+` to "false" to uninstall the module`
		switch holder := s.hidden[c.used]; {
		case failed != "":
			fix = fmt.Sprintf("correct ClusterAddonsConfiguration %s, which is not Ready (see addon-operator addons why %s), or %s%s", failed, failed, available, uninstall)
		case holder != "":
			fix = fmt.Sprintf(`set annotation %s: "true" of ClusterAddonsConfiguration %s%s`, api.ModulesAnnotation, holder, uninstall)
		case len(c.offered) == 0:
			fix = "register the addon again, in a configuration with the annotation " + api.ModulesAnnotation + `: "true"` + uninstall
		}
		s.problem(store.OrphanedModule, name, "", fmt.Sprintf("module %s still uses addon %s %s, which is not registered for modules any more", name, addon.Name, addon.Version), fix)
	}
	s.made.Modules = append(s.made.Modules, module.AddonModule{Name: name, Addon: addon})
}

// pick returns the content of the version of c from which the module must be made: the version wanted, or the highest
// registered version if wanted is empty. If there is no such version, it returns "". If wanted is empty and the module
// uses a higher version of a configuration that is not Ready, pick also returns "", and the name of this configuration.
// Without this exception, one failed request to a repository would downgrade the module.
func (s *selecting) pick(c *choice, wanted string) (content, failed string) {
	content = best(c.offered, wanted)
	if content == "" || wanted != "" || c.used == "" || len(s.failed) == 0 {
		return content, ""
	}
	used, err := s.load(c.used)
	if err != nil {
		return content, ""
	}
	for _, a := range c.offered {
		if a.Content == c.used || a.Content == content && catalog.CompareVersions(used.Version, a.Version) <= 0 {
			return content, ""
		}
	}
	if failed = s.failedWith(used); failed != "" {
		return "", failed
	}
	return content, ""
}

// failedWith returns the name of a configuration in s.failed whose last complete round has found this version of the
// addon, even if the addon could not be fetched. If there is no such configuration, it returns "".
func (s *selecting) failedWith(addon module.Addon) string {
	for _, c := range s.failed {
		round := c.Round
		if c.Phase == store.PhasePending {
			round = c.Earlier
		}
		results, err := registry.Results(s.tx, round)
		if err != nil {
			continue // the command "status" reports the record
		}
		for _, r := range results {
			for _, a := range slices.Concat(r.Addons, r.Known) {
				if cmp.Or(a.Name, a.Entry) == addon.Name && catalog.NormalizeVersion(cmp.Or(a.Version, a.EntryVersion)) == catalog.NormalizeVersion(addon.Version) {
					return c.Name
				}
			}
		}
	}
	return ""
}

// best returns the content of the addon in offered that has the version wanted. If wanted is empty, it returns the
// content of the addon with the highest version. If there is no such addon, it returns "".
func best(offered []registry.Addon, wanted string) (content string) {
	var highest *semver.Version
	for _, a := range offered {
		v, err := semver.NewVersion(a.Version)
		switch {
		case wanted != "":
			if a.Normal == catalog.NormalizeVersion(wanted) {
				return a.Content
			}
		case err == nil && (highest == nil || v.GreaterThan(highest)):
			highest, content = v, a.Content
		}
	}
	return content
}

func versions(offered []registry.Addon) string {
	all := make([]string, len(offered))
	for i, a := range offered {
		all[i] = a.Version
	}
	return strings.Join(all, ", ")
}

// load returns the description of the addon with this content, which a module made from it needs.
func (s *selecting) load(content string) (module.Addon, error) {
	loaded, ok, err := registry.LoadContent(s.tx, content)
	if err == nil && (!ok || loaded.Addon == nil) {
		err = errors.New("its files are not in the store")
	}
	if err != nil {
		return module.Addon{}, err
	}
	a := loaded.Addon
	out := module.Addon{ID: a.ID, Name: a.Name, Version: a.Version, Content: content}
	for _, p := range a.Plans {
		plan := module.AddonPlan{Name: p.Name, Schema: p.CreateSchema}
		if p.Values != nil {
			if err := json.Unmarshal(p.Values, &plan.Values); err != nil {
				return out, fmt.Errorf("values of plan %s: %w", p.Name, err)
			}
		}
		out.Plans = append(out.Plans, plan)
	}
	slices.SortFunc(out.Plans, func(a, b module.AddonPlan) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// chart returns the files of the chart that content contains.
func chart(db *store.DB, content string) (fs.FS, error) {
	var archive []byte
	if err := db.View(func(tx *store.Tx) error {
		loaded, ok, err := registry.LoadContent(tx, content)
		if err == nil && ok && loaded.Addon != nil {
			archive, ok, err = registry.LoadChart(tx, loaded.Addon.Chart.Digest)
		}
		if err == nil && !ok {
			err = fmt.Errorf("content %s is not in the store any more", content)
		}
		return err
	}); err != nil {
		return nil, err
	}
	ctx := context.Background() //nolint:forbidigo // reading an archive that is in memory does not block
	files, err := catalog.Unpack(ctx, bytes.NewReader(archive), catalog.DefaultLimits)
	if err != nil {
		return nil, err
	}
	return fs.Sub(files, "chart")
}
