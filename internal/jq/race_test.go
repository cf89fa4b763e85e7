//go:build race

package jq_test

// withRace is set where the race detector runs. Its memory counts for the limit of a helper process,
// which it ends in a way of its own.
const withRace = true
