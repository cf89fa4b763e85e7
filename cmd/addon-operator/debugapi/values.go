package debugapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// A ModuleList has the states of all modules.
type ModuleList struct {
	// EnabledModules is sorted by name, as in flant/addon-operator. Modules is sorted by order and name.
	EnabledModules []string     `json:"enabledModules"`
	Modules        []moduleLine `json:"modules"`
	// Problems has the problems that no task shows, for example problems of directories, of hooks and of the ConfigMap.
	Problems []inspect.Problem `json:"problems,omitempty"`
}

// A moduleLine is one module in a list.
type moduleLine struct {
	Name    string `json:"name"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	// State is the current state of the module, and Reason is the reason for this state. Why says what
	// enables or disables the module.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Since is the time at which the state began; zero if it is not known.
	Since    time.Time `json:"since,omitzero"`
	Revision int       `json:"revision,omitempty"`
	Why      string    `json:"why,omitempty"`
	// Addon is the addon from which the module was made; nil for a module of the image.
	Addon *modules.Made `json:"addon,omitempty"`
	// Broken is the reason why the module cannot be loaded, or why its CRDs cannot be installed; empty if there is
	// none.
	Broken string `json:"broken,omitempty"`
}

// modulePages serves modules and their values, global values, and releases.
type modulePages struct {
	db        *store.DB
	runs      runPages
	snapshots snapshotReader
	values    func() (*desired.Values, error)
	render    func(ctx context.Context, module string, loose, withReleased bool) (now, released string, err error)
}

// moduleListRoute serves a path below /module/: the modules for "list", and the objects of their
// releases for "resource-monitor".
func (pages modulePages) moduleListRoute(_ *http.Request, path string) (Page, error) {
	if path == "resource-monitor" {
		seen, err := pages.monitors()
		return Page{Data: seen}, err
	}
	if path != "list" {
		return Page{}, notFound("there is no /module/%s: ask for /module/list, or /module/NAME/values and the like", path)
	}
	list, err := pages.moduleList()
	return Page{list, func(layout inspect.Layout) string { return list.Text(layout) }}, err
}

// moduleList returns the modules, sorted by order and name.
func (pages modulePages) moduleList() (ModuleList, error) {
	list := ModuleList{EnabledModules: []string{}, Modules: []moduleLine{}}
	err := pages.db.View(func(tx *store.Tx) error {
		status, err := pages.runs.reader().Modules(tx)
		if err != nil {
			return err
		}
		list.Problems = status.Problems
		config, err := appliedConfig(tx)
		if err != nil && !isUnreadable(err) { // list.Problems has a problem for an unreadable record
			return err
		}
		made, err := modules.List(tx, config.Sections)
		if err != nil {
			return err
		}
		return eachModule(tx, func(name string, m store.Module) error {
			release, _, err := store.Load[store.Release](tx, store.ReleaseKey(name))
			if isUnreadable(err) {
				err = nil
			}
			if m.Enabled {
				list.EnabledModules = append(list.EnabledModules, name)
			}
			is := status.Modules[name]
			line := moduleLine{
				Name: name, Order: m.Order, Enabled: m.Enabled, State: string(is.State), Reason: is.Reason, Since: is.Since,
				Revision: release.Revision, Why: m.Why, Broken: cmp.Or(m.Broken, m.Undefined),
			}
			if addon, ok := made[name]; ok {
				line.Addon = &addon
			}
			list.Modules = append(list.Modules, line)
			return err
		})
	})
	slices.Sort(list.EnabledModules)
	slices.SortFunc(list.Modules, moduleLine.compare)
	return list, err
}

// eachModule calls the function do for each module. If the record of a module cannot be read, eachModule calls the
// function with an empty record. The commands "workflow inspect" and "module list" show the problem.
func eachModule(tx *store.Tx, do func(name string, m store.Module) error) error {
	for k := range tx.Range(store.At(store.Modules)) {
		m, _, err := store.Load[store.Module](tx, k)
		if isUnreadable(err) {
			m, err = store.Module{}, nil
		}
		if err != nil {
			return err
		}
		p, err := k.Parts()
		if err != nil {
			return err
		}
		if err := errors.Join(do(p.Str(), m), p.Err()); err != nil {
			return err
		}
	}
	return nil
}

// isUnreadable reports whether err is the error of one record that cannot be read. Other records may be readable.
func isUnreadable(err error) bool {
	record := (*store.RecordError)(nil)
	return errors.As(err, &record)
}

// enabledModules returns the modules that the last discovery enabled, in the order in which they run. If the startup
// record cannot be read, enabledModules uses the records of the modules.
func enabledModules(tx *store.Tx) ([]string, error) {
	startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
	if !isUnreadable(err) {
		return append([]string{}, startup.Enabled...), err
	}
	var enabled []moduleLine
	err = eachModule(tx, func(name string, m store.Module) error {
		if m.Enabled {
			enabled = append(enabled, moduleLine{Name: name, Order: m.Order})
		}
		return nil
	})
	slices.SortFunc(enabled, moduleLine.compare)
	names := make([]string, len(enabled))
	for i, line := range enabled {
		names[i] = line.Name
	}
	return names, err
}

// compare compares modules by the order in which they run.
func (m moduleLine) compare(other moduleLine) int {
	return cmp.Or(cmp.Compare(m.Order, other.Order), cmp.Compare(m.Name, other.Name))
}

// Text returns the modules as a table, and the problems below it.
func (m ModuleList) Text(layout inspect.Layout) string {
	rows := [][]string{{"MODULE", "ENABLED", "STATE", "REVISION", "REASON"}}
	for _, line := range m.Modules {
		revision := "-"
		if line.Revision > 0 {
			revision = strconv.Itoa(line.Revision)
		}
		reason := cmp.Or(line.Reason, line.Why)
		if !line.Since.IsZero() {
			reason += " since " + layout.Clock(line.Since)
		}
		if line.Addon != nil {
			reason += madeFrom(line.Addon)
		}
		rows = append(rows, []string{line.Name, strconv.FormatBool(line.Enabled), line.State, revision, reason})
	}
	text := layout.Table(rows)
	if len(m.Problems) > 0 {
		text += "\n" + inspect.ProblemsText(m.Problems, layout)
	}
	return text
}

// madeFrom describes the addon from which a module was made, as a text that is appended to the
// reason for the state of the module.
func madeFrom(addon *modules.Made) string {
	text := fmt.Sprintf("; addon %s %s", addon.Addon, addon.Version)
	if addon.Configuration != "" {
		text += " of " + addon.Configuration
	}
	text += ", plan " + addon.Plan
	if addon.PlanByDefault {
		text += " by default"
	}
	return text
}

// appliedConfig returns the content of the ConfigMap that is in force.
func appliedConfig(tx *store.Tx) (config values.Config, err error) {
	applied, ok, err := store.Load[store.AppliedConfig](tx, store.AppliedConfigKey())
	if err != nil || !ok {
		return config, err
	}
	if err := json.Unmarshal(applied.Config, &config); err != nil {
		return values.Config{}, fmt.Errorf("the applied ConfigMap content in the store: %w", err)
	}
	return config, nil
}

// globalRoute serves the global hooks if page is "list". Otherwise page names a kind of data, such as "config", and
// globalRoute serves this data of the global section.
func (pages modulePages) globalRoute(r *http.Request, page string) (Page, error) {
	if page == "list" {
		return pages.globalHooks()
	}
	return pages.section(r, page, "", values.Global)
}

// moduleRoute serves one kind of data of a module. The argument page names the kind, such as
// "values" or "snapshots".
func (pages modulePages) moduleRoute(r *http.Request, page string) (Page, error) {
	name, err := pages.moduleNamed(r.PathValue("module"))
	if err != nil {
		return Page{}, err
	}
	return pages.section(r, page, name, values.Camel(name))
}

// moduleNamed returns name, or an error if no module has this name.
func (pages modulePages) moduleNamed(name string) (string, error) {
	known := false
	if err := pages.db.View(func(tx *store.Tx) error {
		known = tx.Get(store.ModuleKey(name)) != nil
		return nil
	}); err != nil {
		return "", err
	}
	if !known {
		return "", notFound("no module is called %q; see addon-operator module list", name)
	}
	return name, nil
}

// section returns one kind of data of the values section with the given key. The argument page names the kind, such as
// "values". module is empty for the global section.
func (pages modulePages) section(r *http.Request, page, module, key string) (Page, error) {
	if page == "changes" {
		return pages.changes(r, key)
	}
	withGlobal := r.URL.Query().Get("global") == "true" || module == ""
	without, err := RedactorOf(pages.db)
	if err != nil {
		return Page{}, err
	}
	var data any
	switch page {
	case "snapshots":
		data, err = pages.snapshots.of(module)
	case "values", "config", "patches", "origins":
		if !withGlobal || key == values.Global {
			without.Prefix = "/" + key
		}
		without.Undated = page == "origins"
		data, without.Since, err = pages.layered(page, key, withGlobal)
	default:
		return Page{}, notFound("%q is not known here: ask for values, config, patches, origins, changes or snapshots", page)
	}
	if err != nil {
		return Page{}, err
	}
	return shown(r, data, without)
}

// changes returns the differences of the values of the section with the given key between two runs.
func (pages modulePages) changes(r *http.Request, key string) (Page, error) {
	req := inspect.ValueDiffRequest{Section: key}
	var err error
	if req.From, err = number(r, "from", 0); err != nil {
		return Page{}, err
	}
	if req.To, err = number(r, "to", 0); err != nil {
		return Page{}, err
	}
	var diff inspect.ValueDiff
	err = pages.db.View(func(tx *store.Tx) (err error) {
		diff, err = inspect.ReadValueDiff(tx, req)
		return err
	})
	if errors.Is(err, inspect.ErrNoRun) {
		err = &routeError{http.StatusNotFound, err}
	}
	return Page{diff, func(layout inspect.Layout) string { return inspect.ValueDiffText(&diff, layout) }}, err
}

// layered returns one kind of data of the values section with the given key. The argument page names the kind:
// "values", "config", "patches" or "origins". layered also returns the time of the last change of each value, by JSON
// pointer. If withGlobal is true, the data "values" and "config" include the global section.
func (pages modulePages) layered(page, key string, withGlobal bool) (data any, since map[string]time.Time, err error) {
	all, err := pages.values()
	if err != nil {
		return nil, nil, err
	}
	err = pages.db.View(func(tx *store.Tx) error {
		layers, err := all.Layers(tx, key)
		if err != nil {
			return err
		}
		since = sinceOf(layers, page, key, withGlobal)
		switch page {
		case "patches":
			saved := layers.Saved[key]
			if saved == nil {
				saved = []values.Saved{}
			}
			data = saved
			return nil
		case "origins":
			data = layers.Explain(key)
		case "config":
			data = only(layers.HookConfigValues(key), key, withGlobal)
		case "values":
			enabled, err := enabledModules(tx)
			if err != nil {
				return err
			}
			document, _ := layers.HookValues(key, enabled)
			data = only(document, key, withGlobal)
		}
		return nil
	})
	return data, since, err
}

// sinceOf returns the time of the last change of each value of the section with the given key, by JSON pointer. The
// argument page names the kind of data, as in layered.
func sinceOf(layers values.Layers, page, key string, withGlobal bool) map[string]time.Time {
	if page == "config" {
		layers.Saved = nil // the page config does not include the patches of hooks
	}
	since := layers.Since(key)
	if withGlobal && key != values.Global {
		maps.Copy(since, layers.Since(values.Global))
	}
	return since
}

// only selects the section with the given key from document, and returns this section. If withGlobal is true and the
// section is not the global section, the result is the whole document, which has this section and the global section.
func only(document values.Values, key string, withGlobal bool) any {
	if withGlobal && key != values.Global {
		return document
	}
	if document[key] == nil {
		return map[string]any{}
	}
	return document[key]
}

// globalHooks returns the page of the global hooks. In the format text, the page has only the names
// of the hooks.
func (pages modulePages) globalHooks() (Page, error) {
	hooks, err := hooksBelow(pages.db, store.HooksOf(""))
	text := func(inspect.Layout) (names string) {
		for _, h := range hooks {
			names += h.Name + "\n"
		}
		return names
	}
	return Page{map[string]any{"globalHooks": hooks}, text}, err
}

// A snapshotOf is the snapshot of one binding.
type snapshotOf struct {
	Binding string `json:"binding"`
	Queue   string `json:"queue"`
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Objects []any  `json:"objects"`
}

// A snapshotReader reads the snapshots of bindings. Snapshots exist only in the memory of a running
// operator.
type snapshotReader struct {
	db       *store.DB
	snapshot func(graph.Subject) []*kube.Object
}

// of returns the snapshots of the kubernetes bindings of a module, by hook. For the global hooks, module
// is empty.
func (reader snapshotReader) of(module string) (map[string][]snapshotOf, error) {
	if reader.snapshot == nil {
		return nil, &routeError{http.StatusConflict, errors.New("snapshots are in the memory of a running operator and not in its store: ask a running operator, and leave --store out")}
	}
	out := map[string][]snapshotOf{}
	err := reader.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.BindingsOf(module)) {
			b, _, err := store.Load[store.Binding](tx, k)
			if err != nil {
				return err
			}
			subject, err := store.ParseBindingKey(k)
			if err != nil {
				return err
			}
			if b.Kind != store.Kubernetes {
				continue
			}
			var c struct {
				Kind string `json:"kind"`
			}
			if err := json.Unmarshal(b.Config, &c); err != nil {
				return err
			}
			s := snapshotOf{Binding: subject.Binding, Queue: b.Queue, Kind: c.Kind, Objects: []any{}}
			for _, o := range reader.snapshot(subject) {
				item := map[string]any{"name": o.Name, "kind": c.Kind}
				if o.Namespace != "" {
					item["namespace"] = o.Namespace
				}
				if len(o.FilterResult) > 0 {
					item["filterResult"] = o.FilterResult
				}
				if len(o.Raw) > 0 {
					item["object"] = o.Raw
				}
				s.Objects = append(s.Objects, item)
			}
			s.Count = len(s.Objects)
			out[subject.Hook] = append(out[subject.Hook], s)
		}
		return nil
	})
	return out, err
}
