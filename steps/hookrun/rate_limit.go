package hookrun

import (
	"encoding/json"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow"
)

// RateLimit returns the rate limit in the settings of the hook of t. A hook whose configuration has the legacy format
// processes only one event in each run. A Synchronization that does not run the hook has no rate limit.
func (s *Step) RateLimit(tx *store.Tx, t *store.Task) workflow.RateLimit {
	r, ok, err := store.Load[store.Hook](tx, store.HookKey(t.Subject.Module, t.Subject.Hook))
	if err != nil || !ok {
		return workflow.RateLimit{} // the run reports the error
	}
	// Decode only two fields, to save time: the engine calls RateLimit each time it claims a task.
	var config struct {
		Version  string         `json:"configVersion"`
		Settings *hook.Settings `json:"settings"`
	}
	if err := json.Unmarshal(r.Config, &config); err != nil {
		return workflow.RateLimit{}
	}
	limit := workflow.RateLimit{NoBatch: config.Version == hook.V0}
	if config.Settings == nil || config.Settings.ExecutionMinInterval.Duration <= 0 {
		return limit
	}
	if s.synchronizes() {
		if h, err := bindings.DecodeHook(r); err != nil || h.Silent(t.Subject.Binding) {
			return limit
		}
	}
	limit.Every, limit.Burst = config.Settings.ExecutionMinInterval.Duration, config.Settings.ExecutionBurst
	return limit
}
