// Package samples_test runs everything that users try and copy: the sample modules and global hooks, the commands in
// the documents, the command "make run", and the objects in deploy.
package samples_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
)

// root is the path of the repository, relative to the directory of this package.
const root = "../.."

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// program builds the operator, and the other programs that the command "make run" needs, from the current source. It
// returns the path of the operator; the other programs are in the same directory.
var program = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, "bin", "samples"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir+"/", "./e2e/address", "./e2e/repository")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build address and repository: %w\n%s", err, output)
	}
	if err := buildHook(filepath.Join(dir, "collect")); err != nil {
		return "", err
	}
	return operator.Build(dir)
})

// buildHook builds the sample hook written in Go, in the same way as the command "make build", and writes it to path.
func buildHook(path string) error {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./modules/050-images/src/collect")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the hook of module images: %w\n%s", err, output)
	}
	return nil
}

// linkPrograms creates the directory dir/bin with links to the programs that the command "make run" and the documents
// use. linkPrograms returns the path of the operator.
func linkPrograms(t *testing.T, dir string) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	built, kubernetes := filepath.Dir(path), kubernetesPrograms(t)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{
		"addon-operator": built, "hooktools": built, "address": built, "repository": built,
		"controlplane": kubernetes, "kubectl": kubernetes, "kustomize": kubernetes,
	} {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// kubernetesPrograms builds the control plane, kubectl and kustomize, and returns the path of their directory.
func kubernetesPrograms(t *testing.T) string {
	t.Helper()
	cluster.Start(t) // Start builds the programs before it starts a cluster
	dir, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// shortDir creates a directory with a path that is short enough for a socket in it. The directory is removed at the
// end of t.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "samples-") //nolint:usetesting // the path of t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// copySamples copies the sample modules and global hooks to dir. It adds the built program of the hook written in Go.
func copySamples(t *testing.T, dir string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"modules", "global-hooks"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	hook, err := os.ReadFile(filepath.Join(filepath.Dir(path), "collect"))
	if err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(dir, "modules/050-images/hooks")
	if err := errors.Join(os.MkdirAll(hooks, 0o755), os.WriteFile(filepath.Join(hooks, "collect"), hook, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// newEnvironment returns the environment of an operator in namespace, with a copy of the samples. In the copy, hooks
// that run every minute run every second, so that tests need not wait for a minute.
func newEnvironment(t *testing.T, c *cluster.Cluster, namespace string) operator.Environment {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	copySamples(t, dir)
	for _, name := range []string{"modules/030-certificates/hooks/expiry.sh", "global-hooks/hooks/30-office-hours.sh"} {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		faster := strings.Replace(string(text), `"* * * * *"`, `"* * * * * *"`, 1)
		if faster == string(text) {
			t.Fatalf("%s has no crontab of every minute", name)
		}
		if err := os.WriteFile(file, []byte(faster), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return operator.Environment{
		Program: path, Dir: dir, Kubeconfig: c.Kubeconfig(), Namespace: namespace,
		ModulesDir: filepath.Join(dir, "modules"), GlobalHooksDir: filepath.Join(dir, "global-hooks"),
	}
}

// start starts the operator of an environment, waits until it has converged, and stops it at the end of t.
func start(t *testing.T, environment operator.Environment, env ...string) *operator.Process {
	t.Helper()
	p, err := environment.Start(env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", environment.EndOfLog())
		}
	})
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// eventually calls the given function repeatedly until the function returns nil. eventually fails the test after 90 s.
// The message of the failure begins with the text in what.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	const within, every = 90 * time.Second, 20 * time.Millisecond
	var err error
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(every) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %s: %v", what, within, err)
}
