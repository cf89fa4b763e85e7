// Package catalog reads addon repositories: their index, and the addons in them. An addon is a Helm
// chart with metadata and plans; a plan is a named set of values for the chart, with schemas.
package catalog
