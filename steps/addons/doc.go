// Package addons implements the steps of the addons graph. The steps process addons configurations: they fetch the
// repositories, check the addons, register them and write the status.
//
// A problem of a repository or an addon is stored as a result, with its reason, and does not make a step fail. A step
// fails only if the API server or the store returns an error, or if the directories of modules cannot be read. The
// engine repeats a failed step.
package addons
