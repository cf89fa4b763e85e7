// Package converge implements the first step of a start and the last step of a converge. The first step, step 1 of
// the lifecycle, asks the global hooks for their configurations and checks all modules before it runs the onStartup
// hooks. The last step, step 8 of the lifecycle, runs the afterAll hooks and records the end of the converge.
package converge
