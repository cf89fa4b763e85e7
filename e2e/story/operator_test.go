package story

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWaitConvergedFailsAtOnceWhenTheOperatorHasEnded(t *testing.T) {
	t.Parallel()
	w := &environment{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.dir, "operator.log"), []byte("--- start 1\nan earlier start\n--- start 2\nno such namespace\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &operator{cmd: exec.CommandContext(t.Context(), "sh", "-c", "exit 3"), done: make(chan struct{})}
	_ = o.cmd.Run() // returns an error, because the process exits with code 3
	close(o.done)
	w.operator = o
	err := waitConverged(w, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "code 3") || !strings.Contains(err.Error(), "no such namespace") {
		t.Errorf("the error is %v, want one with the exit code and the log", err)
	}
	if err != nil && strings.Contains(err.Error(), "an earlier start") {
		t.Errorf("the error has the log of another start: %v", err)
	}
}
