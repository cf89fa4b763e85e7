package steps

import (
	"encoding/json"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// RateLimit returns how often t's hook may run, by the settings of its config. A hook
// of the legacy format is told of one thing a run. A Synchronization that is not
// told to the hook is no run.
func (s *hookStep) RateLimit(tx *store.Tx, t *store.Task) workflow.RateLimit {
	r, ok, err := store.Load[store.Hook](tx, store.HookKey(t.Subject.Module, t.Subject.Hook))
	if err != nil || !ok {
		return workflow.RateLimit{} // the run says what is wrong
	}
	// Of most configs nothing else is needed, and this is asked for at each claim.
	var config struct {
		Version  string         `json:"configVersion"`
		Settings *hook.Settings `json:"settings"`
	}
	if err := json.Unmarshal(r.Config, &config); err != nil {
		return workflow.RateLimit{}
	}
	pace := workflow.RateLimit{NoBatch: config.Version == hook.V0}
	if config.Settings == nil || config.Settings.ExecutionMinInterval.Duration <= 0 {
		return pace
	}
	if s.node.Has(lifecycle.Objects) {
		if h, err := decodeHook(r); err != nil || h.silent(t.Subject.Binding) {
			return pace
		}
	}
	pace.Every, pace.Burst = config.Settings.ExecutionMinInterval.Duration, config.Settings.ExecutionBurst
	return pace
}
