// Package addons raises the events of addons configurations: after their changes, when another
// attempt is due, and when the modules of the image have changed.
package addons
