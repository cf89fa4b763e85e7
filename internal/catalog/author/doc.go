// Package author checks, indexes and packs the addons of a directory, for people who publish an addon repository.
// Unlike package catalog, it trusts the addons, so it renders their charts.
package author
