// Package simulate tests the operator in a simulated cluster. The real store, engine, steps, triggers, Kubernetes
// client and Helm run for simulated days. The API server, the programs of hooks and the disk are models. If actions
// can happen in more than one order, a random generator with a seed chooses the order. So the same seed gives the same
// history, unless a loaded machine makes the Go runtime preempt a goroutine.
package simulate
