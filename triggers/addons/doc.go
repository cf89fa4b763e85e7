// Package addons raises the events of addons configurations: after their changes, and when another
// attempt is due.
package addons
