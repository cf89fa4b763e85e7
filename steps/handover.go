package steps

import (
	"context"
	"fmt"

	"addon-operator/internal/helm"
	"addon-operator/workflow"
)

// uninstall deletes the release of module. The outcome names the objects that were kept because they
// belong to another release.
func (rs *Releases) uninstall(ctx context.Context, module string) (workflow.Outcome, error) {
	kept, err := rs.helm.Uninstall(ctx, module)
	return workflow.Outcome{Detail: rs.reportKept(module, kept)}, err
}

// reportKept logs the objects of module's release that were not deleted with it, and returns them for
// the history.
func (rs *Releases) reportKept(module string, kept []helm.Kept) string {
	for _, k := range kept {
		rs.log.Info().Str("module", module).Str("object", k.Object.String()).Str("owner", k.Owner).
			Msg("object is kept: it belongs to another release")
	}
	switch len(kept) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("kept %s", kept[0])
	default:
		return fmt.Sprintf("kept %s; and %d more", kept[0], len(kept)-1)
	}
}
