// Package modulerun begins and ends the run of a module: it checks how the module must be run, and records the
// end. The steps in between run hooks and upgrade the release; they know nothing of the run.
package modulerun
