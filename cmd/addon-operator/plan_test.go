package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAPlanOfTheRunningOperatorRefusesFlagsWithoutEffect sets each flag in operatorFlags that is not in aloneFlags. A
// flag that is not sent to the running operator must be an error.
func TestAPlanOfTheRunningOperatorRefusesFlagsWithoutEffect(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "socket")
	for _, name := range operatorFlags {
		if slices.Contains(aloneFlags, name) {
			continue
		}
		want := "1: no running operator answers:"
		if !slices.Contains(sentFlags, name) {
			want = "1: --" + name + " has no effect on the plan of the running operator, which uses its own setting; remove the flag, " +
				"or make the plan without a running operator: add one of --kube-config, --kube-context, --kube-server, --store"
		}
		if _, failed, _ := verb(t, "plan", "--debug-unix-socket", socket, "--"+name+"=1"); !strings.HasPrefix(failed, want) {
			t.Errorf("--%s: %q, want %q", name, failed, want)
		}
	}
}
