package hook

// StartBindings returns the bindings that a hook with config c runs at each start, by the names
// under which its record awaits them. If there are none, it returns the schedules of the hook. For
// a hook that runs only on events it returns none, because after no run is it certain that the hook
// has written all its values.
func (c Config) StartBindings() (names []string) {
	for _, binding := range []string{OnStartup, BeforeAll, AfterAll, BeforeHelm, AfterHelm} {
		if _, has := c.Order(binding); has {
			names = append(names, binding)
		}
	}
	ids := c.BindingIDs()
	for i, b := range c.Kubernetes {
		if b.ExecuteOnSynchronization {
			names = append(names, AwaitedKubernetes+ids.Kubernetes[i])
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, id := range ids.Schedule {
		names = append(names, AwaitedSchedule+id)
	}
	return names
}

// Prefixes of the names of awaited bindings that have names of their own.
const (
	AwaitedKubernetes = "kubernetes "
	AwaitedSchedule   = "schedule "
)
