package hooks

import (
	"context"

	"addon-operator/internal/hook"
)

// A Runner runs hooks and enabled scripts. A [hook.Runner] runs them as processes.
type Runner interface {
	// Config returns the configuration that a hook prints for --config. It returns an error if the hook does not end
	// within a time limit.
	Config(ctx context.Context, file hook.File) (hook.Config, error)
	// Run runs a hook and returns what it has written.
	Run(ctx context.Context, run hook.Run) (hook.Result, error)
	// Enabled runs an enabled script. It returns the decision of the script, and the reason that
	// the script has given, which may be "".
	Enabled(ctx context.Context, run hook.EnabledRun) (enabled bool, reason string, err error)
}
