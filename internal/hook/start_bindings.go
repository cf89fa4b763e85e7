package hook

// StartBindings returns the names of the bindings for which a hook with config c runs at each start
// of the operator. If there are none, it returns the names of the hook's schedules. For a hook that
// runs only for events, it returns no names: no run of such a hook is certain to write all its
// values.
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

// Prefixes of the names that [Config.StartBindings] returns for kubernetes bindings and schedules.
// The ID of the binding follows; see [BindingIDs].
const (
	AwaitedKubernetes = "kubernetes "
	AwaitedSchedule   = "schedule "
)
