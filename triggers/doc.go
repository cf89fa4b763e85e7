// Package triggers raises events. The package watches everything outside of the engine that can
// begin a run, except requests of people. Events of kubernetes bindings and schedules are written to
// the store together with the observed state, so that no event is lost or delivered twice.
//
// The types of the package are the triggers: the start of the operator, schedules, kubernetes
// bindings, the ConfigMap, and absent release resources. The attached bindings are in the store,
// and the triggers read them from there. Package addons has the trigger for addons configurations.
package triggers
