package hook

import "slices"

// loadLegacy reads a config without configVersion, which has the format of flant/shell-operator before v1. Unknown
// keys at the top level are problems. For compatibility, unknown keys within a binding are ignored. All bindings use
// the main queue.
func (o object) loadLegacy(scope Scope, config *Config) {
	own, misplaced := orderedBindings(scope)
	for _, key := range []string{
		"kubernetes", "settings", "kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion",
	} {
		misplaced[key] = "needs configVersion: v1 in the config"
	}
	o = o.without(misplaced)
	known := append([]string{"configVersion", "schedule", "onKubernetesEvent"}, own...)
	root := field{value: o.entries, given: true, wrong: o.wrong}.object(known...)

	root.ordered(own, config)
	for _, item := range root.child("onKubernetesEvent").loosely().list(0) {
		config.Kubernetes = append(config.Kubernetes, readLegacyKubernetes(item))
	}
	for _, item := range root.child("schedule").loosely().list(0) {
		config.Schedule = append(config.Schedule, readLegacySchedule(item))
	}
	if len(root.entries) == 0 && len(*root.wrong) == 0 {
		root.fail("hook config: the map is empty; write configVersion: v1 and a binding")
	}
}

// loosely returns f with loose set, so that unknown keys below f are ignored.
func (f field) loosely() field {
	f.loose = true
	return f
}

// readLegacyKubernetes reads one item of the list "onKubernetesEvent" in a legacy config. The binding has no
// Synchronization. Its events contain only the type of the change, and the kind, namespace and name of the object.
func readLegacyKubernetes(f field) KubernetesBinding {
	o := f.object()
	b := KubernetesBinding{
		Name:          o.child("name").text("onKubernetesEvent"),
		Kind:          o.need("kind").full(),
		Events:        readLegacyEvents(o.child("event")),
		JqFilter:      readJqFilter(o.child("jqFilter")),
		LabelSelector: readLabelSelector(o.child("selector")),
		Namespaces:    readLegacyNamespaces(o.child("namespaceSelector")),
		AllowFailure:  o.child("allowFailure").flag(false),
		Queue:         MainQueue,
		Legacy:        true,
	}
	object := o.child("objectName")
	if name := object.text(""); name != "" {
		b.NameSelector = []string{checkName(object, name)}
	}
	return b
}

// readLegacyEvents reads a list of event types with their legacy names add, update and delete. If the list is empty or
// absent, it returns all types.
func readLegacyEvents(f field) []string {
	all := []string{Added, Modified, Deleted}
	old := []string{"add", "update", "delete"}
	asked := readEvents(f, old)
	if len(asked) == 0 {
		return all
	}
	var events []string
	for i, event := range all {
		if slices.Contains(asked, old[i]) {
			events = append(events, event)
		}
	}
	return events
}

func readLegacyNamespaces(f field) NamespaceSelector {
	o := f.object()
	names := readNames(o.child("matchNames"))
	if o.child("any").flag(false) {
		return NamespaceSelector{}
	}
	return NamespaceSelector{Names: distinct(names)}
}

// readLegacySchedule reads one item of the list "schedule" in a legacy config.
func readLegacySchedule(f field) ScheduleBinding {
	o := f.object()
	return ScheduleBinding{
		Name:         o.child("name").text("schedule"),
		Crontab:      readCrontab(o.need("crontab")),
		AllowFailure: o.child("allowFailure").flag(false),
		Queue:        MainQueue,
		Legacy:       true,
	}
}
