// Package safety finds the releases that have no module. It blocks the deletion of releases that is more likely a
// mistake than an intention. A blocked deletion is reported as a problem until a person allows it.
package safety
