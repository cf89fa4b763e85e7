// Package author checks, indexes and packs the addons in a directory, for authors who publish an addon repository.
// Unlike package catalog, it trusts the addons: it renders their charts to check them.
package author
