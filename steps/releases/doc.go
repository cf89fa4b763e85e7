// Package releases checks, upgrades and deletes the Helm releases of modules, and records the result.
package releases
