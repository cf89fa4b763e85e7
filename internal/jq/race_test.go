//go:build race

package jq_test

// withRace is true if the race detector runs. The memory limit of a helper process includes the
// memory of the race detector, which ends the process with another status.
const withRace = true
