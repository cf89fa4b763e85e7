// Package hooks asks the hooks of modules for their configurations, and saves which hooks there are.
package hooks
