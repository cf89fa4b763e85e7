package hook

// StartBindings returns the names of the bindings for which a hook with the config c runs in each start run. If there
// are none, it returns the names of the hook's schedules. When a hook with changed code has run for all these bindings,
// the values that only its earlier code has written are deleted. For a hook that runs only for events, StartBindings
// returns no names, because each run of such a hook may write only a part of the hook's values.
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

// The names that [Config.StartBindings] returns for kubernetes bindings and schedules begin with these prefixes. After
// the prefix comes the ID of the binding, see [BindingIDs].
const (
	AwaitedKubernetes = "kubernetes "
	AwaitedSchedule   = "schedule "
)
