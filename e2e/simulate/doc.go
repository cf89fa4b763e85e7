// Package simulate tests the operator in a simulated cluster. The real store, engine, steps,
// triggers, Kubernetes client and Helm run for simulated days over a model of an API server, of
// hooks and of a disk. If actions can happen in more than one order, a scheduler with a seed
// decides the order. So the same seed gives the same history.
package simulate
