package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/store"
)

// A hookRecord is the decoded record of a hook.
type hookRecord struct {
	file    hook.File
	config  hook.Config
	longest time.Duration // duration of its successful runs; zero if there are none
	awaits  []string      // bindings that its new code has yet to run; see store.Hook
}

// hookOf returns the hook named name of module, and whether it has a record.
func hookOf(tx *store.Tx, module, name string) (hookRecord, bool, error) {
	r, ok, err := store.Load[store.Hook](tx, store.HookKey(module, name))
	if err != nil || !ok {
		return hookRecord{}, false, err
	}
	h, err := decodeHook(r)
	if err != nil {
		return h, false, fmt.Errorf("hook %s of module %q in the store: %w", name, module, err)
	}
	return h, true, nil
}

func decodeHook(r store.Hook) (h hookRecord, err error) {
	if err = json.Unmarshal(r.File, &h.file); err == nil {
		err = json.Unmarshal(r.Config, &h.config)
	}
	h.longest, h.awaits = r.Longest, r.Awaits
	return h, err
}

// hooksOf returns the recorded hooks of module, sorted by name.
func hooksOf(tx *store.Tx, module string) ([]hookRecord, error) {
	var hooks []hookRecord
	for k := range tx.Range(store.HooksOf(module)) {
		r, _, err := store.Load[store.Hook](tx, k)
		if err != nil {
			return nil, err
		}
		h, err := decodeHook(r)
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, h)
	}
	slices.SortFunc(hooks, func(a, b hookRecord) int { return strings.Compare(a.file.Name, b.file.Name) })
	return hooks, nil
}
