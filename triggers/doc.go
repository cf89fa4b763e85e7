// Package triggers raises events. It watches for the causes outside of the operator that begin
// runs, and writes each event to the store together with the observed state, so that no event is
// lost and none is delivered twice.
//
// Its types are the triggers: the start of the operator, schedules, kubernetes bindings, the
// ConfigMap, and absent release resources. The store has the attached bindings, and the triggers
// follow it. Package addons has the trigger for addons configurations.
package triggers
