// Package catalog parses the content of addon repositories: the index and the addons. An addon is a Helm chart with
// metadata and plans. A plan is a named set of values for the chart, with schemas.
//
// All input is treated as hostile: the memory and the time that a function needs are limited, whatever the input is.
// If the input exceeds a limit, the function returns an error that names the limit.
package catalog
