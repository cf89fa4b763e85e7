// Package converge implements the first step of a start and the last step of a converge. Step 1 of the lifecycle asks
// the global hooks for their configurations and checks all modules, before it runs the first hook. Step 8 of the
// lifecycle runs the afterAll hooks and records the end of the converge.
package converge
