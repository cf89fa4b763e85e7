package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCompletionDoesNotHangWhereTheOperatorDoes completes a name while the debug socket accepts connections but never
// answers requests. The completion must end after completionTimeout, without values.
func TestCompletionDoesNotHangWhereTheOperatorDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	out, err := process(t, "__complete", "module", "values", "--debug-unix-socket", path, "").Output()
	if err != nil || !strings.HasPrefix(string(out), ":") {
		t.Errorf("it offers %q, %v", out, err)
	}
	if took := time.Since(began); took > completionTimeout+20*time.Second {
		t.Errorf("it took %s", took)
	}
}
