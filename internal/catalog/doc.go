// Package catalog reads addon repositories: their index, and the addons in them. An addon is a Helm
// chart with metadata and plans; a plan is a named set of values for the chart, with schemas.
//
// All input is treated as hostile. Each function bounds the memory and time that its input can
// cost, and returns an error that names the limit.
package catalog
