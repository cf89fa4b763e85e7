package steps

import (
	"context"
	"encoding/json"
	"fmt"

	"addon-operator/steps/objects"
	"addon-operator/workflow"
)

// Effect executes one effect of a hook, by its kind.
func (s *hookStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	do, known := map[string]func(context.Context, workflow.Task, json.RawMessage) error{
		configEffect:       s.config.doConfig,
		objects.EffectKind: s.objects.Do,
	}[e.Kind]
	if !known {
		return workflow.Refused(fmt.Errorf("no effect is called %q", e.Kind))
	}
	return do(ctx, t, e.Data)
}
