// Package author checks, indexes and packs the addons of a directory, for those who publish an
// addon repository. Unlike package catalog it trusts the addons: it renders their charts.
package author
