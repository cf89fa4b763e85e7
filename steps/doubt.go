package steps

import (
	"context"
	"fmt"
	"slices"

	"addon-operator/internal/helm"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
)

// unknown returns the releases that have no module directory and are not the
// operator's own.
func (s *discoverStep) unknown(ctx context.Context, set module.Set, releases []helm.Summary) ([]string, error) {
	var names []string
	for _, r := range releases {
		if _, onDisk := set.Find(r.Name); !onDisk && r.Name != s.site.IgnoreRelease {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 || s.site.Pod == "" {
		return names, nil
	}
	own, err := s.site.Kube.ReleaseOf(ctx, s.site.Namespace, s.site.Pod)
	switch {
	case err == nil:
		return slices.DeleteFunc(names, func(name string) bool { return name == own }), nil
	case s.site.IgnoreRelease != "" && kube.IsRefused(err):
		return names, nil // it has been said which one is the operator's own
	case kube.IsRefused(err):
		s.withhold(names, fmt.Sprintf("it is not known which release is the operator's own: %v; name it with --helm-ignore-release", err))
		return nil, nil
	default:
		return nil, err
	}
}

// doubt returns names, or none where too large a part of all releases would go.
func (s *discoverStep) doubt(names []string, going, releases int, what string) []string {
	if going == 0 || 2*going <= releases || going <= s.site.AllowPurge {
		return names
	}
	s.withhold(names, fmt.Sprintf("%d of %d releases would be %s, so none is; start with --allow-purge=%d if that is right",
		going, releases, what, going))
	return nil
}

// withhold tells that releases are not deleted, and why.
func (s *discoverStep) withhold(names []string, why string) {
	s.site.Log.Error().Strs("releases", names).Msg(why)
	if s.site.Withheld != nil {
		s.site.Withheld(names, why)
	}
}
