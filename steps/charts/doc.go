// Package charts renders the charts of modules with their current values.
package charts
