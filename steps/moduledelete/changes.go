package moduledelete

// Changes is notified of deleted modules, after the commit.
type Changes interface {
	// ModuleRetired follows the commit that starts the deletion of a module that the ConfigMap
	// disables.
	ModuleRetired(module string)
	// AddonModulesChanged follows a commit that may have changed which modules are made from
	// addons.
	AddonModulesChanged()
}
