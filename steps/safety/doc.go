// Package safety finds the releases that have no module, and blocks deletions of releases that are more likely
// a mistake than intended. A blocked deletion is a problem until a person allows it.
package safety
