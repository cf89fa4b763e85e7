// Package hooks runs global hooks and hooks of modules with --config, and saves their configurations. If a hook of a
// module prints no valid configuration, the package records that the module cannot be loaded.
package hooks
