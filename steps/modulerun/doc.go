// Package modulerun begins and ends the run of a module: it checks how the module must be run, and records the end of
// the run. The steps between these two run hooks and upgrade the release. They are in other packages, and do not
// depend on this one.
package modulerun
