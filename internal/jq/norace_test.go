//go:build !race

package jq_test

const withRace = false
