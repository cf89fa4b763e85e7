// Package safety finds the releases that have no module. It blocks the deletion of releases if a mistake is more
// likely than an intention. A blocked deletion is reported as a problem until a person allows it.
package safety
