package moduledelete

// Changes is notified after commits that begin or end the deletion of a module.
type Changes interface {
	// ModuleDisabledByConfig is called after the commit that begins the deletion of a module that the ConfigMap
	// disables.
	ModuleDisabledByConfig(module string)
	// AddonModulesChanged is called after a commit that may have changed the set of modules made from addons.
	AddonModulesChanged()
}
