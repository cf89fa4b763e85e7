package steps

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"addon-operator/internal/helm"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/store"
)

// unknown returns the releases that have no module directory and are not the operator's own.
func (s *discoverStep) unknown(ctx context.Context, set module.Set, releases []helm.Summary, found *discovered) ([]string, error) {
	var names, addons []string
	for _, r := range releases {
		_, onDisk := set.Find(r.Name)
		switch {
		case onDisk || r.Name == s.ignoreRelease:
		case r.Addon:
			addons = append(addons, r.Name)
		default:
			names = append(names, r.Name)
		}
	}
	if len(addons) > 0 {
		s.blockDeletion(found, store.Problem{
			Object: "releases of addons", Error: "releases were made from addons that are not registered any more, so nothing tells whether they are wanted",
			Fix: "register the addons again, or uninstall the releases with helm uninstall",
		}, addons)
	}
	if len(names) == 0 || s.pod == "" {
		return names, nil
	}
	own, err := s.client.ReleaseOf(ctx, s.namespace, s.pod)
	switch {
	case err == nil:
		return slices.DeleteFunc(names, func(name string) bool { return name == own }), nil
	case s.ignoreRelease != "" && kube.IsRefused(err):
		return names, nil // the operator's own release is configured
	case kube.IsRefused(err):
		s.blockDeletion(found, store.Problem{
			Object: "own release", Error: fmt.Sprintf("releases are kept because it is not known which one is the operator's own: %v", err),
			Fix: "start the operator with --helm-ignore-release=NAME, \"\" if Helm did not install it",
		}, names)
		return nil, nil
	default:
		return nil, err
	}
}

// A deletion describes the modules or releases that a discovery would delete.
type deletion struct {
	names []string // modules, or releases without one
	going int      // how many of them have a release
	what  string   // what happens to the releases, such as "purged"
	keep  string   // what to do to keep them
}

// checkSafety returns the names of d, or none if more than half of all releases would be deleted
// and that is not allowed.
func (s *discoverStep) checkSafety(d deletion, releases int, found *discovered, allowed int) []string {
	if d.going == 0 || 2*d.going <= releases || d.going <= max(s.allowPurge, allowed) {
		return d.names
	}
	s.blockDeletion(found, store.Problem{
		Object: d.what, Error: fmt.Sprintf("%d of %d releases would be %s, so the safety check keeps them", d.going, releases, d.what),
		Fix: d.keep, Command: []string{"reload", "--allow-purge=" + strconv.Itoa(d.going)},
		Effect: "uninstalls the releases, with all their objects",
	}, d.names)
	return nil
}

// mostNamed is the maximum number of releases that a problem names.
const mostNamed = 20

// blockDeletion adds a problem to found and reports that the releases names are not deleted.
func (s *discoverStep) blockDeletion(found *discovered, p store.Problem, names []string) {
	shown := names[:min(len(names), mostNamed)]
	p.Kind = store.BlockedDeletion
	p.Error += ": " + strings.Join(shown, ", ")
	p.More = len(names) - len(shown)
	found.Blocked = append(found.Blocked, p)
	why := p.Error + "; " + p.Fix
	if len(p.Command) > 0 {
		why += "; or run addon-operator " + strings.Join(p.Command, " ") + " in the pod, which " + p.Effect
	}
	s.log.Error().Strs("releases", names).Msg(why)
	s.observer.DeletionBlocked(names, why)
}
