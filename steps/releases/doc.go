// Package releases checks, upgrades and deletes the Helm releases of modules, and records the results in the store.
package releases
