package main

import (
	"bytes"
	"strings"
	"testing"
)

// A short command must end before its first garbage collection.
func TestAShortCommandDoesNotCollectGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	version := process(t, "version")
	var trace bytes.Buffer
	version.Stderr, version.Env = &trace, append(version.Environ(), "GODEBUG=gctrace=1")
	if err := version.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &trace)
	}
	if strings.Contains(trace.String(), "gc 1 ") {
		t.Errorf("addon-operator version collected garbage:\n%s", &trace)
	}
}
