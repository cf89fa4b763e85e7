// Package hookio reads the input of hooks from the store, and checks and saves the output of hooks.
package hookio
