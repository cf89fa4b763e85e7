package moduledelete

import (
	"context"

	"addon-operator/workflow"
)

// Releases are the Helm releases of modules.
type Releases interface {
	// Status returns the status of the module's release in the cluster, and whether the module has a release.
	Status(ctx context.Context, module string) (status string, released bool, err error)
	// Uninstall deletes the release of the module of task t.
	Uninstall(ctx context.Context, t workflow.Task) (workflow.Outcome, error)
}
