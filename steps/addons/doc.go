// Package addons implements the steps of the addons graph. They process addons configurations: fetch
// their repositories, check the addons, register them and write the status.
//
// What is wrong with a repository or an addon is a result, stored with its reason. A step fails only
// if the API server or the store does, and is then tried again by the engine.
package addons
