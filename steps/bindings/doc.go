// Package bindings attaches the bindings of hooks: it makes their records equal to the configurations of the hooks.
// It also builds the binding contexts. It reads hooks only from the store, never from the disk.
package bindings
