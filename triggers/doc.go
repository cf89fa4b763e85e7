// Package triggers raises events. Events of kubernetes bindings and schedules are written to the
// store together with the observed state, so that no event is lost or raised twice. There is one
// exception: if the first delivery of a kind that the API server has begun to serve is interrupted,
// it raises events again.
//
// The package has these triggers: the start of the operator, schedules, kubernetes bindings, the
// ConfigMap, and absent objects of releases. The attached bindings are in the store, and the
// triggers read them from there. Package addons has the trigger for addons configurations. The
// program cmd/addon-operator raises the other events: requests of people, corrected modules, and
// changed modules made from addons.
package triggers
