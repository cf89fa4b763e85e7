package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMistakesInATestOfModulesSayWhatToDo runs the command "test" with invalid input. Each error must say what to
// correct, and must have the expected exit code.
func TestMistakesInATestOfModulesSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "good", "modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, work := filepath.Join(dir, "good"), filepath.Join(dir, "work")
	nameless, kubeconfig := write("nameless.yaml", "{apiVersion: v1, kind: ConfigMap}"), write("kubeconfig", "{apiVersion: v1, kind: Config}")
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no API":               {[]string{"--crash-every-step", good}, exitUsage, "build a control plane with make controlplane and name it with --control-plane"},
		"no kind of test":      {[]string{good, "--control-plane", "x"}, exitUsage, "--crash-every-step is required"},
		"no directory":         {[]string{"--crash-every-step"}, exitUsage, "accepts 1 arg(s)"},
		"two APIs":             {[]string{"--crash-every-step", good, "--control-plane", "x", "--kube-config", kubeconfig}, exitUsage, "choose one"},
		"somebody's cluster":   {[]string{"--crash-every-step", good, "--kube-config", kubeconfig}, exitUsage, "--kube-config needs --disposable-cluster"},
		"a shared cluster":     {[]string{"--crash-every-step", good, "--kube-config", kubeconfig, "--disposable-cluster", "--parallel", "2"}, exitUsage, "--parallel needs --control-plane"},
		"an empty kubeconfig":  {[]string{"--crash-every-step", good, "--kube-config", kubeconfig, "--disposable-cluster"}, exitUntested, "name one with --kube-context"},
		"no modules":           {[]string{"--crash-every-step", dir, "--control-plane", "x"}, exitUntested, "has neither modules nor global-hooks"},
		"an object of no name": {[]string{"--crash-every-step", good, "--control-plane", "x", "--objects", nameless}, exitUntested, "--objects: " + nameless + ": document 1: an object needs apiVersion, kind and metadata.name"},
		"no file of events":    {[]string{"--crash-every-step", good, "--control-plane", "x", "--events", nameless + ".not"}, exitUntested, "--events: "},
		"no control plane":     {[]string{"--crash-every-step", good, "--control-plane", dir + "/none"}, exitUntested, "name the program with --control-plane"},
		"a bad control plane":  {[]string{"--crash-every-step", good, "--control-plane", "false"}, exitUntested, "control plane false ended before it served: exit status 1"},
		"a long path":          {[]string{"--crash-every-step", good, "--control-plane", "false", "--work-dir", work + strings.Repeat("x", 100)}, exitUntested, "name a shorter one"},
		"negative rounds":      {[]string{"--crash-every-step", good, "--control-plane", "x", "--rounds", "-1"}, exitUsage, "--rounds must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot()
			root.SetErr(new(bytes.Buffer))
			root.SetArgs(append([]string{"test"}, test.args...))
			err := root.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || exitCode(err) != test.code {
				t.Errorf("got %v, code %d; want %q, code %d", err, exitCode(err), test.want, test.code)
			}
		})
	}
}

// TestOnlyTheCommandTestStartsASupervisedOperator checks that the hidden command fails without the
// control socket, which only the command "test" passes to a child process.
func TestOnlyTheCommandTestStartsASupervisedOperator(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"supervised-start"})
	err := root.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "use the command start") || exitCode(err) != exitUsage {
		t.Errorf("got %v, code %d", err, exitCode(err))
	}
}
