package moduledelete

import (
	"context"

	"addon-operator/workflow"
)

// Releases are the Helm releases of modules.
type Releases interface {
	// Status returns the status of module's release in the cluster, and whether there is a release.
	Status(ctx context.Context, module string) (status string, released bool, err error)
	// Uninstall deletes the release of t's module.
	Uninstall(ctx context.Context, t workflow.Task) (workflow.Outcome, error)
}
