package crash_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
)

// everyStepReport has those fields of the JSON report of the command "test --crash-every-step" that these tests use.
type everyStepReport struct {
	Rounds     int      `json:"rounds"`
	NotReached []string `json:"notReached"`
	Findings   []struct {
		Of          string `json:"of"`
		Moment      string `json:"moment"`
		Differences []struct {
			Of, Field string
			Want, Got *string
		} `json:"differences"`
		Failures []struct {
			Of    string `json:"of"`
			Error string `json:"error"`
		} `json:"failures"`
		Unfinished string `json:"unfinished"`
	} `json:"findings"`
}

// numbered returns a hook that runs the shell code in work at beforeHelm. The number n orders the hooks of a module.
func numbered(n int, work string) string {
	return fmt.Sprintf("#!/bin/bash\nset -eu\nif [[ ${1:-} == --config ]]; then echo '{configVersion: v1, beforeHelm: %d}'; exit; fi\n%s\n", n, work)
}

// badModules are the files of a module with three hooks. If a hook is killed and runs again, good.sh has the same
// effect, count.sh counts twice, and create.sh fails.
var badModules = map[string]string{
	"modules/values.yaml":          "shopEnabled: true\n",
	"modules/010-shop/values.yaml": "shop: {}\n",
	"modules/010-shop/hooks/good.sh": numbered(1,
		`kubectl create configmap good --dry-run=client -o yaml | kubectl apply -n addon-operator -f -`),
	"modules/010-shop/hooks/count.sh": numbered(2, `count=$(kubectl get -n addon-operator configmap counter -o 'jsonpath={.data.count}')
kubectl patch -n addon-operator configmap counter --type merge -p "{\"data\": {\"count\": \"$((count + 1))\"}}"`),
	"modules/010-shop/hooks/create.sh": numbered(3, `kubectl create -n addon-operator configmap made`),
	"objects.yaml":                     "{apiVersion: v1, kind: ConfigMap, metadata: {name: counter}, data: {count: '0'}}\n",
}

// everyStep runs the command "test --crash-every-step" on files, and returns its exit code, its report and its stderr.
func everyStep(t *testing.T, files map[string]string, flags ...string) (code int, report everyStepReport, stderr string) {
	t.Helper()
	dir := shortDir(t)
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o700)); err != nil { //nolint:gosec // because hooks are executed
			t.Fatal(err)
		}
	}
	controlPlane, err := cluster.Program()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "--crash-every-step", dir, "--work-dir", filepath.Join(dir, "work"), "--output", "json", "--quiet", "300ms", "--settle", "2s"}
	if !slices.Contains(flags, "--kube-config") {
		args = append(args, "--control-plane", controlPlane)
	}
	command := exec.CommandContext(t.Context(), build(t), append(args, flags...)...)
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(controlPlane)+":"+os.Getenv("PATH"))
	command.Dir = dir
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	exit := (*exec.ExitError)(nil)
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &report); err != nil { //nolint:musttag // its fields have tags
			t.Fatalf("%v\n%s\n%s", err, &out, &errOut)
		}
	}
	return command.ProcessState.ExitCode(), report, errOut.String()
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "every-") //nolint:usetesting // the path of t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// lines returns the findings of the report. Each key names the interrupted hook or chart, and the moment of the kill.
func (r everyStepReport) lines() map[string][]string {
	text := func(s *string) string {
		if s == nil {
			return "none"
		}
		return *s
	}
	found := map[string][]string{}
	for _, f := range r.Findings {
		at := f.Of + ", killed " + f.Moment
		for _, d := range f.Differences {
			found[at] = append(found[at], fmt.Sprintf("%s: %s: %s → %s", d.Of, d.Field, text(d.Want), text(d.Got)))
		}
		for _, failure := range f.Failures {
			found[at] = append(found[at], failure.Of+" failed: "+failure.Error)
		}
		if f.Unfinished != "" {
			found[at] = append(found[at], f.Unfinished)
		}
	}
	return found
}

// TestKillsAtEveryStepFindHooksThatDoNotBearThem runs the command "test --crash-every-step" on three hooks. If a killed
// hook runs again, the first hook has the same effect, the second counts twice, and the third fails. The report must
// name the second and the third.
func TestKillsAtEveryStepFindHooksThatDoNotBearThem(t *testing.T) {
	t.Parallel()
	code, report, stderr := everyStep(t, badModules, "--objects", "objects.yaml", "--steps", "module-beforehelm", "--parallel", "2")
	if code != 1 {
		t.Errorf("exit code %d, want 1\n%s", code, stderr)
	}
	want := map[string]string{
		"hook hooks/count.sh of module shop, killed after module-beforehelm shop/hooks/count.sh":   "ConfigMap addon-operator/counter: data.count: 1 → 2",
		"hook hooks/create.sh of module shop, killed after module-beforehelm shop/hooks/create.sh": `configmaps "made" already exists`,
	}
	got := report.lines()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("findings (-want +got):\n%s\n%s", diff, stderr)
	}
	for at, line := range want {
		if len(got[at]) != 1 || !strings.Contains(got[at][0], line) {
			t.Errorf("%s: %q, want only %q", at, got[at], line)
		}
	}
	if report.Rounds != 6 || len(report.NotReached) > 0 {
		t.Errorf("%d rounds, want 6: before and after each of three hooks; not reached were %q\n%s", report.Rounds, report.NotReached, stderr)
	}
}

// TestKillsInAGivenClusterLeaveItAsItWas runs the command "test --crash-every-step" in an existing cluster. A hook
// changes an object outside of the operator's namespace, and creates a ClusterRole. The command must undo both.
func TestKillsInAGivenClusterLeaveItAsItWas(t *testing.T) {
	t.Parallel()
	c := cluster.Launch(t, t.TempDir())
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"version": "1"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	files := maps.Clone(badModules)
	files["modules/010-shop/hooks/reach.sh"] = numbered(4, `kubectl patch -n default configmap kept --type merge -p '{"data": {"version": "2"}}'
kubectl create clusterrole made --verb=get --resource=pods --dry-run=client -o yaml | kubectl apply -f -`)
	code, report, stderr := everyStep(t, files, "--objects", "objects.yaml", "--steps", "module-beforehelm", "--rounds", "4",
		"--kube-config", c.Kubeconfig(), "--disposable-cluster")
	if code != 1 || report.Rounds != 4 {
		t.Errorf("exit code %d after %d rounds, want exit code 1 after 4 rounds\n%s", code, report.Rounds, stderr)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "addon-operator", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of the test was not deleted: %v", err)
	}
	if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), "made", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ClusterRole of a hook was not deleted: %v", err)
	}
	after, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || after.Data["version"] != "1" {
		t.Errorf("a changed object was not restored: %v, %v", after.Data, err)
	}
}

// TestKillsAtEveryStepNeedModulesThatConverge expects an error of the command "test --crash-every-step" if a hook
// fails in the run without kills.
func TestKillsAtEveryStepNeedModulesThatConverge(t *testing.T) {
	t.Parallel()
	files := map[string]string{"global-hooks/bad.sh": strings.Replace(numbered(1, "echo 'no idea' >&2; exit 3"), "beforeHelm", "onStartup", 1)}
	var code int
	var stderr string
	// The timeout includes the start of a control plane. If the hook has not failed by then, the test allows more time.
	for timeout := 40 * time.Second; timeout <= 6*time.Minute && !strings.Contains(stderr, "no idea"); timeout *= 3 {
		code, _, stderr = everyStep(t, files, "--timeout", timeout.String())
	}
	if code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	for _, text := range []string{"the modules do not converge without a crash", "global hook bad.sh", "no idea", "the log is "} {
		if !strings.Contains(stderr, text) {
			t.Errorf("stderr does not say %q:\n%s", text, stderr)
		}
	}
}
