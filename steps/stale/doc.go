// Package stale finds and removes webhook bindings that their hooks no longer have.
package stale
