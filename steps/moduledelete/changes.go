package moduledelete

// Changes is notified of deleted modules, after the commit.
type Changes interface {
	// ModuleDisabledByConfig follows the commit that begins the deletion of a module, if the
	// ConfigMap disables the module.
	ModuleDisabledByConfig(module string)
	// AddonModulesChanged follows a commit that may have changed which modules are made from
	// addons.
	AddonModulesChanged()
}
