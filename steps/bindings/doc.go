// Package bindings attaches the bindings of hooks, so that their records match the configurations
// of the hooks, and makes the binding contexts. It reads the hooks from the store only.
package bindings
