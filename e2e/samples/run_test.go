package samples_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
)

// A checkout is the directory in which a test runs e2e/run.sh, so that the script does not change the repository. It
// has links to the built programs and to the directories that the script reads. The script creates the directory .run
// in it.
type checkout struct {
	t   *testing.T
	dir string
	env []string
}

func newCheckout(t *testing.T, env ...string) checkout {
	t.Helper()
	dir := shortDir(t)
	linkPrograms(t, dir)
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"e2e", "modules", "global-hooks", "deploy"} {
		if err := os.Symlink(filepath.Join(absolute, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return checkout{t: t, dir: dir, env: append(env, "BUILT=yes", fmt.Sprint("PORT=", unusedPort(t)), "REPOSITORY_PORT=0")}
}

// unusedPort returns a port of 127.0.0.1 on which no process listens. It is below the range from which the kernel
// assigns ports to outgoing connections.
func unusedPort(t *testing.T) int {
	t.Helper()
	for {
		port := 10_000 + rand.IntN(20_000)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = l.Close()
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// run runs e2e/run.sh, and sends SIGINT, as Ctrl-C does, when a line of the output matches the regular expression in
// until. run returns the output and the exit code.
func (c checkout) run(until string) (output string, code int) {
	c.t.Helper()
	pattern := regexp.MustCompile(until)
	return c.shell("exec bash e2e/run.sh", func(line string) bool { return pattern.MatchString(line) })
}

// shell runs a shell command that runs e2e/run.sh, and sends SIGINT, as Ctrl-C does, when the given function returns
// true for a line of the output. shell returns the output and the exit code.
func (c checkout) shell(command string, stop func(line string) bool) (output string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Minute)
	defer cancel()
	// A shell starts background programs with SIGINT ignored. If this test runs in the background, the script would
	// inherit the ignored signal, and a shell cannot change that. So this process catches SIGINT: a signal that a
	// process catches has its default action in the programs that the process starts.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt)
	defer signal.Stop(caught)
	script := exec.CommandContext(ctx, "bash", "-c", command)
	script.Cancel = func() error { return script.Process.Signal(syscall.SIGTERM) } // the script then stops the programs that it has started
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
	pressed := false
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if !pressed && stop(lines.Text()) {
			pressed = true
			// As a terminal does at Ctrl-C, send the signal to all processes of the process group.
			if err := syscall.Kill(-script.Process.Pid, syscall.SIGINT); err != nil {
				c.t.Error(err)
			}
		}
	}
	_ = script.Wait() // the caller checks the exit code instead
	return all.String(), script.ProcessState.ExitCode()
}

// TestRunGoesOnWhereCtrlCStoppedIt stops a converge by Ctrl-C during a module's hook. The next run must resume the
// converge at that module, and its output must say so.
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

	output, code := c.run(`the slow hook runs`)
	if code != 0 {
		t.Errorf("the first run ended with exit code %d", code)
	}
	for _, text := range []string{"This is the first run", "release-upgrade", "slow/hooks/slow.sh", "Stopping: ", "Stopped. "} {
		if !strings.Contains(output, text) {
			t.Errorf("the first run did not say %q", text)
		}
	}
	// There are six modules: five sample modules and the module called slow. If the addon of e2e/sample is registered
	// before the modules are discovered, there are seven.
	if !regexp.MustCompile(` 1/[67] `).MatchString(output) {
		t.Error("the first run did not say which of how many modules runs")
	}
	if strings.Contains(output, "Converged") {
		t.Error("the first run was not stopped in the middle")
	}
	if _, err := os.Stat(filepath.Join(c.dir, ".run/cluster/ready")); !os.IsNotExist(err) {
		t.Errorf("the control plane was not stopped: %v", err)
	}
	if t.Failed() {
		t.Fatal(output)
	}

	output, code = c.run(`^Converged`)
	if code != 0 {
		t.Errorf("the second run ended with exit code %d", code)
	}
	for _, text := range []string{"its unfinished work is resumed", "Resumed at ", "after 1 restart", "Converged", "Stopped. "} {
		if !strings.Contains(output, text) {
			t.Errorf("the second run did not say %q", text)
		}
	}
	if strings.Contains(output, "global-onstartup") {
		t.Error("the second run did not resume")
	}
	if t.Failed() {
		t.Log(output)
	}
}

// TestRunLeavesReleasesOfOthersAlone checks that the command "make run" rejects a namespace with releases that it has
// not created. It must accept a namespace with only its own releases.
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
	if output, code := c.run(`^Converged`); code != 1 || !strings.Contains(output, release.Name) {
		t.Fatalf("exit code %d, and it said:\n%s", code, output)
	}

	if err := client.CoreV1().Secrets(namespace).Delete(t.Context(), release.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if output, code := c.run(`^Converged`); code != 0 || !strings.Contains(output, "Stopped. ") {
			t.Fatalf("exit code %d, and it said:\n%s", code, output)
		}
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "team-red", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// left returns the command lines of the programs that still run with the checkout as working directory.
func (c checkout) left() (programs []string) {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil && dir == c.dir { // an error means that the process has ended or belongs to another user
			line, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
			if err == nil && len(line) > 0 {
				programs = append(programs, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
	return programs
}

// stopped waits until no program runs with the checkout as working directory. stopped fails the test after a minute.
func (c checkout) stopped() {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); len(c.left()) > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	if left := c.left(); len(left) > 0 {
		c.t.Fatalf("left behind after Ctrl-C: %q", left)
	}
}

// kubectl runs kubectl in the namespace of the operator and returns its output.
func (c checkout) kubectl(args ...string) (string, error) {
	command := exec.CommandContext(c.t.Context(), "bin/kubectl", append([]string{"-n", "addon-operator"}, args...)...)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, ".run/cluster/kubeconfig"), "KUBECACHEDIR="+filepath.Join(c.dir, ".run/kubectl"))
	text, err := command.CombinedOutput()
	return string(text), err
}

// addonsOfTheSample waits until the addons configuration "sample" is Ready, the addons configuration "broken" is
// Failed with all expected reasons, and the addon that the operator's ConfigMap enables is installed with the values
// of its plan.
func (c checkout) addonsOfTheSample() {
	c.t.Helper()
	for object, texts := range map[string][]string{
		"clusteraddonsconfigurations sample": {"phase: Ready"},
		"clusteraddonsconfigurations broken": {"phase: Failed", "reason: LoadingError", "reason: TemplatingURLError"},
		"configmap banner":                   {"colour: red", "text: Welcome"},
	} {
		eventually(c.t, object+" has "+strings.Join(texts, ", "), func() error {
			printed, err := c.kubectl(append([]string{"get", "-o", "yaml"}, strings.Fields(object)...)...)
			for _, text := range texts {
				if err == nil && !strings.Contains(printed, text) {
					err = fmt.Errorf("no %s in\n%s", text, printed)
				}
			}
			return err
		})
	}
}

const guard = `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  cat <<'END'
configVersion: v1
kubernetesValidating:
- name: guard.example.com
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: Namespaced}
  labelSelector: {matchLabels: {guarded: "yes"}}
END
  exit
fi
echo '{"allowed": false, "message": "the guard says no"}' >"$VALIDATING_RESPONSE_PATH"
`

const guarded = `apiVersion: v1
kind: ConfigMap
metadata: {name: guarded, labels: {guarded: "yes"}}
`

// TestRunPipedIntoTeeServesWebhooksAndLeavesNothingAtCtrlC follows getting-started.md. It runs e2e/run.sh piped into
// tee, and checks that a webhook works without further settings, that the sample import lasts long enough to press
// Ctrl-C in the middle, that Ctrl-C leaves no program running, and that the next run imports only the remaining parts.
func TestRunPipedIntoTeeServesWebhooksAndLeavesNothingAtCtrlC(t *testing.T) {
	modules := t.TempDir()
	hook := filepath.Join(modules, "070-guard", "hooks", "guard.sh")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	object := filepath.Join(modules, ".guarded.yaml")
	for file, text := range map[string]string{
		hook: guard, filepath.Join(modules, "070-guard", "values.yaml"): "guardEnabled: true\n", object: guarded,
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil { //nolint:gosec // hooks are executed
			t.Fatal(err)
		}
	}
	c := newCheckout(t, "MODULES_DIR=modules:e2e/sample/modules:"+modules)
	output, _ := c.shell("bash e2e/run.sh | tee said", func(line string) bool {
		if !strings.HasPrefix(line, "Converged") {
			return false
		}
		eventually(t, "the webhook is asked", func() error {
			if text, err := c.kubectl("create", "-f", object); err == nil || !strings.Contains(text, "the guard says no") {
				return fmt.Errorf("%w: %s", errors.Join(err, errors.New("the request was not refused")), text)
			}
			return nil
		})
		for _, kind := range []string{"clusteraddonsconfigurations", "addonsconfigurations"} {
			if text, err := c.kubectl("get", "customresourcedefinitions", kind+".addons.kyma-project.io"); err != nil {
				t.Errorf("make run does not define %s: %v: %s", kind, err, text)
			}
		}
		c.addonsOfTheSample()
		if text, err := c.kubectl("patch", "configmap", "addon-operator", "--type=merge", `--patch={"data": {"importEnabled": "true"}}`); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		return true
	})
	if !strings.Contains(output, "Starting the control plane") || !strings.Contains(output, "Converged") {
		t.Fatal(output)
	}
	c.stopped()

	importedPart := regexp.MustCompile(`✔ module-beforehelm +import/hooks/part-(\d\d)\.sh`)
	imported := func(line string) (part int) {
		if match := importedPart.FindStringSubmatch(line); match != nil {
			part, _ = strconv.Atoi(match[1]) // two digits
		}
		return part
	}
	// The first run has imported no part, or a few parts if this process was slow to end it.
	first, last := 0, 0
	var times []time.Time // from the operator's log, because this process may read a line later
	output, _ = c.shell("bash e2e/run.sh | tee said", func(line string) bool {
		part := imported(line)
		if part == 0 {
			return false
		}
		if first == 0 {
			first = part
		}
		last = part
		if last == first || last == first+2 {
			at, err := time.Parse(time.TimeOnly, line[:len(time.TimeOnly)])
			if err != nil {
				t.Error(err)
			}
			if len(times) > 0 && at.Before(times[0]) { // midnight
				at = at.Add(24 * time.Hour)
			}
			times = append(times, at)
		}
		return last == first+2
	})
	c.stopped()
	if len(times) != 2 || 10*times[1].Sub(times[0])/2 < 25*time.Second {
		t.Errorf("parts %d and %d were imported at %v, too fast to press Ctrl-C in the middle\n%s", first, last, times, output)
	}
	again, code := c.run(`^Converged`)
	var parts []int
	for line := range strings.Lines(again) {
		if part := imported(line); part > 0 {
			parts = append(parts, part)
		}
	}
	if code != 0 || !strings.Contains(again, "Resumed at ") || !slices.Contains(parts, 10) {
		t.Errorf("exit code %d of the last run, which imported the parts %v", code, parts)
	}
	if slices.ContainsFunc(parts, func(part int) bool { return part <= last }) {
		t.Errorf("the last run imported the parts %v, after part %d was imported", parts, last)
	}
	if t.Failed() {
		t.Log(again)
	}
}
