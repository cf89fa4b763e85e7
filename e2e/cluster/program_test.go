package cluster

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refused runs the control plane with args, and returns its output. The control plane must reject args at once.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("controlplane %q was not refused (%v); it said %q", args, err, output)
	}
	return string(output)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestControlPlaneSaysWhatItCannotStartWith(t *testing.T) {
	t.Parallel()
	foreign, noTokens, noEtcd := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, foreign, "precious", "data")
	write(t, noTokens, "tokens.csv", "")
	write(t, noEtcd, "etcd", "a file, not a directory")

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no directory":         {nil, "--dir DIR"},
		"an argument":          {[]string{"--dir", foreign, "start"}, `unexpected argument "start"`},
		"an unknown flag":      {[]string{"--port=1"}, "unknown flag: --port"},
		"a standard stream":    {[]string{"--dir", foreign, "--ready-fd=1"}, "--ready-fd 1 is a standard stream"},
		"a file for directory": {[]string{"--dir", filepath.Join(foreign, "precious")}, "not a directory"},
		"someone's directory":  {[]string{"--dir", foreign, "--ephemeral"}, "is not empty"},
		"an empty token file":  {[]string{"--dir", noTokens}, "tokens.csv: no token in it"},
		"unusable etcd data":   {[]string{"--dir", noEtcd}, "start etcd: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := refused(t, test.args...); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want it to say %q", got, test.want)
			}
		})
	}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(foreign, "precious")); err != nil {
			t.Errorf("a rejected start changed existing files: %v", err)
		}
	})
}

func TestDirectoryIsForOneControlPlane(t *testing.T) {
	t.Parallel()
	first := Start(t)
	dir := first.process.dir
	got := refused(t, "--dir", dir)
	if want := "another control plane runs on " + dir; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to say %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "ready")); err != nil {
		t.Errorf("the first is no longer ready: %v", err)
	}
	first.Namespace(t) // fails the test if the first control plane does not serve requests
}

func TestTakenPortGivesWayToAnother(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "port", port+"\n")

	c := Launch(t, dir)
	if strings.HasSuffix(c.Config().Host, ":"+port) {
		t.Errorf("got %s, want any port but the one that is taken", c.Config().Host)
	}
	c.Namespace(t)
}

func TestNamespaceNamesAreReadableAndShort(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"TestConverge":             "t-converge-",
		"TestConverge/two_modules": "t-converge-two-modules-",
		"BenchmarkX":               "t-benchmarkx-",
		"Test":                     "t--",
		"TestЖ":                    "t--",
		"TestANameThatGoesOnAndOnAndOnAndOnAndOn": "t-anamethatgoesonandonandonandonandon-",
		"TestANameThatGoesOnAndOnAndOnAndOn_More": "t-anamethatgoesonandonandonandon-more-",
	} {
		if got := namePrefix(test); got != want {
			t.Errorf("namePrefix(%q) = %q, want %q", test, got, want)
		}
	}
}
