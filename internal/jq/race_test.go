//go:build race

package jq_test

// withRace is true if the tests run with the race detector. The memory of the race detector counts toward the memory
// limit of a helper. At the limit, the race detector ends the helper with another exit status than exitMemory.
const withRace = true
