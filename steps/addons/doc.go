// Package addons implements the steps of the addons graph. They process addons configurations: fetch
// their repositories, check the addons, register them and write the status.
//
// A problem of a repository or an addon does not fail a step: it is stored as a result, with its reason. A step fails
// only if the API server or the store returns an error. The engine then repeats the step.
package addons
