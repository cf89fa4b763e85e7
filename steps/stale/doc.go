// Package stale finds and removes admission bindings that their hooks no longer have.
package stale
