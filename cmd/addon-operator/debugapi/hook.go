package debugapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"addon-operator/internal/redact"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// A HookLine is one hook with its configuration.
type HookLine struct {
	// Module is empty for a global hook.
	Module string          `json:"module,omitempty"`
	Name   string          `json:"name"`
	Config json.RawMessage `json:"config"`
	// Schedules has the attached schedule bindings of the hook.
	Schedules []ScheduleLine `json:"schedules,omitempty"`
}

// FullName returns the name of the hook as commands expect it: MODULE/HOOK, or HOOK for a global hook.
func (h *HookLine) FullName() string {
	if h.Module == "" {
		return h.Name
	}
	return h.Module + "/" + h.Name
}

// hookPages serves the hooks and their snapshots.
type hookPages struct {
	db        *store.DB
	snapshots snapshotReader
	live      bool // set if an operator runs
}

// hookRoute serves a path below /hook/: the list of hooks for "list", and the snapshots of the hooks
// called NAME for "NAME/snapshots". NAME can contain slashes.
func (pages hookPages) hookRoute(r *http.Request, path string) (Page, error) {
	if name, ok := strings.CutSuffix(path, "/snapshots"); ok {
		return pages.hookSnapshots(r, name)
	}
	if path != "list" {
		return Page{}, notFound("there is no /hook/%s: ask for /hook/list, or /hook/NAME/snapshots", path)
	}
	hooks, err := hooksBelow(pages.db, store.At(store.Hooks))
	if err != nil {
		return Page{}, err
	}
	err = pages.db.View(func(tx *store.Tx) error {
		schedules, err := attachedSchedules(tx, store.At(store.Bindings), pages.live)
		for i := range hooks {
			hooks[i].Schedules = schedules[graph.Subject{Module: hooks[i].Module, Hook: hooks[i].Name}]
		}
		return err
	})
	return Page{hooks, func(layout inspect.Layout) string { return HooksText(hooks, layout) }}, err
}

// hooksBelow returns the hooks whose keys in the store begin with below. Global hooks are first, and the hooks of
// modules are sorted by module and name.
func hooksBelow(db *store.DB, below store.Key) ([]HookLine, error) {
	hooks := []HookLine{}
	err := db.View(func(tx *store.Tx) error {
		for k := range tx.Range(below) {
			h, _, err := store.Load[store.Hook](tx, k)
			if err != nil {
				return err
			}
			p, err := k.Parts()
			if err != nil {
				return err
			}
			hooks = append(hooks, HookLine{Module: p.Str(), Name: p.Str(), Config: h.Config})
		}
		return nil
	})
	slices.SortFunc(hooks, func(a, b HookLine) int {
		return cmp.Or(strings.Compare(a.Module, b.Module), strings.Compare(a.Name, b.Name))
	})
	return hooks, err
}

// HooksText returns the hooks as a table.
func HooksText(hooks []HookLine, layout inspect.Layout) string {
	rows := [][]string{{"MODULE", "HOOK", "NEXT TICK", "BINDINGS"}}
	for _, h := range hooks {
		rows = append(rows, []string{orGlobal(h.Module), h.Name, h.nextTick(layout), strings.Join(BindingsOf(h.Config), " ")})
	}
	return layout.Table(rows)
}

func orGlobal(module string) string {
	if module == "" {
		return "(global)"
	}
	return module
}

// BindingsOf describes the bindings in the configuration of a hook: the names of ordered bindings, such as beforeHelm,
// and the number of bindings of each other kind.
func BindingsOf(config json.RawMessage) []string {
	var c struct {
		Ordered map[string]int `json:"ordered"`
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(config, &c) != nil || json.Unmarshal(config, &all) != nil {
		return nil
	}
	var out []string
	for name := range c.Ordered {
		out = append(out, name)
	}
	for kind, raw := range all {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			out = append(out, fmt.Sprintf("%s×%d", kind, len(list)))
		}
	}
	slices.Sort(out)
	return out
}

// hookSnapshots returns the snapshots of the bindings of a hook. name is MODULE/HOOK or HOOK. If several modules have a
// hook called HOOK, the page has the snapshots of all these hooks. If r names a binding, the page has only the
// snapshots of this binding.
func (pages hookPages) hookSnapshots(r *http.Request, name string) (Page, error) {
	hooks, err := hooksBelow(pages.db, store.At(store.Hooks))
	if err != nil {
		return Page{}, err
	}
	seen := map[string][]snapshotOf{}
	known := false
	for _, h := range hooks {
		if name != h.Name && name != h.FullName() {
			continue
		}
		known = true
		all, err := pages.snapshots.of(h.Module)
		if err != nil {
			return Page{}, err
		}
		seen[orGlobal(h.Module)] = append([]snapshotOf{}, all[h.Name]...)
	}
	if !known {
		return Page{}, notFound("no hook is called %q; see addon-operator hook list", name)
	}
	if binding := r.URL.Query().Get("binding"); binding != "" {
		if !onlyBinding(seen, binding) {
			return Page{}, notFound("hook %s has no kubernetes binding %q; see addon-operator hook list", name, binding)
		}
	}
	without, err := RedactorOf(pages.db)
	if err != nil {
		return Page{}, err
	}
	return shown(r, seen, without)
}

// onlyBinding removes the snapshots of all bindings except those with the given name, and reports whether any
// snapshot is left.
func onlyBinding(seen map[string][]snapshotOf, binding string) bool {
	left := 0
	for module, of := range seen {
		seen[module] = slices.DeleteFunc(of, func(s snapshotOf) bool { return s.Binding != binding })
		left += len(seen[module])
	}
	return left > 0
}

// shown returns a page with data. If r does not ask for secrets, secrets are masked.
func shown(r *http.Request, data any, without redact.Redactor) (Page, error) {
	if showSecrets(r) {
		return Page{Data: data}, nil
	}
	data, err := without.Values(data)
	return Page{Data: data}, err
}

// RedactorOf returns a redactor that uses the secret of a store as the key of its hashes.
func RedactorOf(db *store.DB) (r redact.Redactor, err error) {
	err = db.View(func(tx *store.Tx) error {
		r.Secret = store.RedactionSecret(tx)
		return nil
	})
	return r, err
}
