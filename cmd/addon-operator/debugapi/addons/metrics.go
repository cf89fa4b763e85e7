package addons

import (
	"addon-operator/internal/metrics"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// AddState adds the data for the metrics about addons to s. AddState passes over records that cannot be read.
func AddState(tx *store.Tx, s *metrics.State) error {
	s.Addons = map[string]int{}
	for c, err := range registry.Configurations(tx) {
		if err != nil {
			return err
		}
		scope := ScopeLabel(c.Scope)
		s.Addons[scope] += 0 // a scope without addons has the value 0
		s.Configurations = append(s.Configurations, metrics.Configuration{Scope: scope, Name: c.Name, Phase: string(c.Phase)})
	}
	counts, err := registry.Count(tx)
	if err != nil {
		return err
	}
	for scope, n := range counts {
		s.Addons[ScopeLabel(scope)] += n
	}
	for p, err := range store.Readable(store.EachProblem(tx)) {
		if err != nil {
			return err
		}
		if p.Kind == store.OrphanedModule {
			s.OrphanedModules = append(s.OrphanedModules, p.Subject.Module)
		}
	}
	return nil
}

// ScopeLabel returns the label of a scope, which is also its prefix in the paths of the catalogs.
func ScopeLabel(scope registry.Scope) string {
	if scope == registry.Cluster {
		return "cluster"
	}
	return "ns/" + string(scope)
}
