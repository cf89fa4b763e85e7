package samples_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
)

// A checkout is a directory that looks like the repository to e2e/run.sh, with programs built and a .run of its own.
type checkout struct {
	t   *testing.T
	dir string
	env []string
}

func newCheckout(t *testing.T, env ...string) checkout {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Start(t) // which builds the control plane
	dir := shortDir(t)
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"e2e": filepath.Join(absolute, "e2e"), "modules": filepath.Join(absolute, "modules"),
		"global-hooks":       filepath.Join(absolute, "global-hooks"),
		"bin/controlplane":   filepath.Join(absolute, "bin/controlplane"),
		"bin/addon-operator": path,
		"bin/objects":        filepath.Join(filepath.Dir(path), "objects"),
		"bin/hooktools":      filepath.Join(filepath.Dir(path), "hooktools"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return checkout{t: t, dir: dir, env: append(env, "BUILT=yes", "PORT="+port)}
}

// run runs e2e/run.sh, presses Ctrl-C when a line matches until, and returns what it has said and its exit code.
func (c checkout) run(until string) (said string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	// Where this program was started with Ctrl-C ignored, as shells start what runs in the background, so would the script
	// be, and could not undo it. A signal that is caught here is as it should be there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt)
	defer signal.Stop(caught)
	script := exec.CommandContext(ctx, "bash", "e2e/run.sh")
	script.Cancel = func() error { return script.Process.Signal(syscall.SIGTERM) } // it ends what it has started
	script.Dir = c.dir
	script.Env = append(os.Environ(), c.env...)
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, in, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close()
	script.Stdout, script.Stderr = in, in
	err = script.Start()
	in.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	pattern, pressed := regexp.MustCompile(until), false
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if !pressed && pattern.MatchString(lines.Text()) {
			pressed = true
			// What a terminal does: all processes of the foreground group get it.
			if err := syscall.Kill(-script.Process.Pid, syscall.SIGINT); err != nil {
				c.t.Error(err)
			}
		}
	}
	_ = script.Wait() // the code says how it ended
	return all.String(), script.ProcessState.ExitCode()
}

// TestRunGoesOnWhereCtrlCStoppedIt: a converge that is stopped at a module's hook goes on behind that hook, and says so.
func TestRunGoesOnWhereCtrlCStoppedIt(t *testing.T) {
	modules := filepath.Join(t.TempDir(), "modules")
	if err := os.CopyFS(modules, os.DirFS(filepath.Join(root, "modules"))); err != nil {
		t.Fatal(err)
	}
	slow := filepath.Join(modules, "015-slow", "hooks", "slow.sh")
	if err := os.MkdirAll(filepath.Dir(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	const hook = `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit
fi
echo the slow hook runs
sleep 2
`
	for file, text := range map[string]string{slow: hook, filepath.Join(modules, "015-slow", "values.yaml"): "slowEnabled: true\n"} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := newCheckout(t, "MODULES_DIR="+modules)

	said, code := c.run(`the slow hook runs`)
	if code != 0 {
		t.Errorf("the first run ended with exit code %d", code)
	}
	for _, text := range []string{"This is the first run", "1/6 ", "release-upgrade", "slow/hooks/slow.sh", "Stopping: ", "Stopped. "} {
		if !strings.Contains(said, text) {
			t.Errorf("the first run did not say %q", text)
		}
	}
	if strings.Contains(said, "Converged") {
		t.Error("the first run was not stopped in the middle")
	}
	if _, err := os.Stat(filepath.Join(c.dir, ".run/cluster/ready")); !os.IsNotExist(err) {
		t.Errorf("the control plane was not stopped: %v", err)
	}
	if t.Failed() {
		t.Fatal(said)
	}

	said, code = c.run(`^Converged`)
	if code != 0 {
		t.Errorf("the second run ended with exit code %d", code)
	}
	for _, text := range []string{"what that left unfinished is resumed", "Resumed at ", "after 1 restart", "Converged", "Stopped. "} {
		if !strings.Contains(said, text) {
			t.Errorf("the second run did not say %q", text)
		}
	}
	if strings.Contains(said, "global-onstartup") {
		t.Error("the second run began anew")
	}
	if t.Failed() {
		t.Log(said)
	}
}

// TestRunLeavesReleasesOfOthersAlone: on a cluster that is somebody's, a namespace with releases that make run did not
// make is refused; one with its own is not.
func TestRunLeavesReleasesOfOthersAlone(t *testing.T) {
	shared := cluster.Start(t)
	client, err := kubernetes.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	release := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.theirs.v1", Labels: map[string]string{"owner": "helm", "name": "theirs"}},
		Type:       "helm.sh/release.v1",
	}
	if _, err := client.CoreV1().Secrets(namespace).Create(t.Context(), release, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := newCheckout(t, "CLUSTER=current", "KUBECONFIG="+shared.Kubeconfig(), "NAMESPACE="+namespace)
	if said, code := c.run(`^Converged`); code != 1 || !strings.Contains(said, release.Name) {
		t.Fatalf("exit code %d, and it said:\n%s", code, said)
	}

	if err := client.CoreV1().Secrets(namespace).Delete(t.Context(), release.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if said, code := c.run(`^Converged`); code != 0 || !strings.Contains(said, "Stopped. ") {
			t.Fatalf("exit code %d, and it said:\n%s", code, said)
		}
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "team-red", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
