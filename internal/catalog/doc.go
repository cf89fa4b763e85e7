// Package catalog reads addon repositories: their index, and the addons in them. An addon is a Helm
// chart with metadata and plans; a plan is a named set of values for the chart, with schemas.
//
// All input is treated as hostile. Each function bounds the memory and time that it needs for any input. If the input
// exceeds a limit, the error names the limit.
package catalog
