// Package triggers raises events: it watches for the causes from outside that
// begin runs, and puts each into the store together with what it has seen, so
// that none is lost and none told twice.
//
// Its nouns are the triggers themselves: the start of the operator, schedules,
// kubernetes bindings, the ConfigMap, and release resources that are absent.
// Which bindings there are, the store says; triggers follow it.
package triggers
