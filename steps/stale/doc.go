// Package stale finds and removes webhook bindings that their hooks no longer have, and attaches the conversion bindings
// that replace them.
package stale
