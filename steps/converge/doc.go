// Package converge begins and ends a converge: it asks the global hooks for their configurations and checks
// all modules before the first hook runs, and records the end.
package converge
