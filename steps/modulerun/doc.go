// Package modulerun begins and ends the run of a module: it checks how the module must be run, and records the end of
// the run. The other steps of the run are in other packages, which do not depend on this one: they run hooks, and
// check and upgrade the release.
package modulerun
