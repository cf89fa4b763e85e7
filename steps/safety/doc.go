// Package safety finds the releases that have no module. It blocks a deletion of releases if the deletion is more
// likely a mistake than intended. A blocked deletion is reported as a problem until the reason for the block is gone. If
// only the number of deletions blocks it, a person can allow it.
package safety
