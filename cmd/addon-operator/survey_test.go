package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/retry"
)

// verb runs a command that connects to the operator of the fixture, and returns the output of the command.
func (s *fixture) verb(args ...string) string {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append(args, "--debug-unix-socket", s.path("socket")))
	root.SetOut(&out)
	root.SetErr(&out)
	if err := root.ExecuteContext(s.t.Context()); err != nil {
		return err.Error()
	}
	return out.String()
}

func TestProblemsOfDirectoriesAndConfigMapAreShownAtOnceAndGoWhenMended(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := newFixture(t)
	s.file("modules/values.yaml", "webEnabled: true\n")
	s.file("modules/010-web/hooks/a.sh", hookText(`{"configVersion":"v1","beforeHelm":1}`, "true"))
	s.start(c.Kubeconfig(), namespace)
	s.converged()
	shown := func(verb []string, texts ...string) func() bool {
		return func() bool {
			out := s.verb(verb...)
			for _, text := range texts {
				if !strings.Contains(out, text) {
					return false
				}
			}
			return true
		}
	}
	s.file("modules/010-web/hooks/b.sh", hookText(`{"configVersion":"v1","beforeHelm":2}`, "echo ran >> "+s.path("ran")))
	if err := os.Chmod(s.path("modules/010-web/hooks/b.sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.file("modules/020-new/values.yaml", "newEnabled: true\n")
	if _, err := client(t, c).CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, Data: map[string]string{"wbe": "a: 1"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{{"workflow", "inspect", "--all"}, {"module", "list"}} {
		s.until(strings.Join(verb, " ")+" shows the problems", shown(verb, "b.sh is not executable", "chmod +x", "020-new is new", "reload", `did you mean "web"?`))
	}
	if err := os.Chmod(s.path("modules/010-web/hooks/b.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.until("the change of the directory is shown", shown([]string{"module", "list"}, "010-web has changed", "module run web"))
	if out := s.verb("module", "run", "web"); !strings.Contains(out, "requested as run") {
		t.Error(out)
	}
	s.until("the hook has run", func() bool { _, err := os.Stat(s.path("ran")); return err == nil })
	if out := s.verb("reload"); !strings.Contains(out, "requested as run") {
		t.Error(out)
	}
	s.until("the new module is on", shown([]string{"module", "list"}, "new     true     on"))
	if err := client(t, c).CoreV1().ConfigMaps(namespace).Delete(t.Context(), "addon-operator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("no problem is left", func() bool {
		out := s.verb("module", "list") + s.verb("workflow", "inspect", "--all")
		return !strings.Contains(out, "✖") && !strings.Contains(out, "fix:")
	})
}

func TestFailingJQFilterIsAProblemOfItsBindingUntilItWorks(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	maps := client(t, c).CoreV1().ConfigMaps(namespace)
	s := newFixture(t)
	s.file("modules/values.yaml", "webEnabled: true\n")
	s.file("modules/010-web/hooks/a.sh", hookText(`{"configVersion":"v1","kubernetes":[{"name":"seen","kind":"ConfigMap","queue":"side",`+
		`"nameSelector":{"matchNames":["seen","other"]},"jqFilter":".data.items | fromjson"}]}`, "true"))
	seen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen"}, Data: map[string]string{"items": "["}}
	if _, err := maps.Create(t.Context(), seen, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start(c.Kubeconfig(), namespace)
	s.converged()
	problem := "the jqFilter of binding seen of hook web/hooks/a.sh fails on ConfigMap " + namespace + "/seen"
	s.until("inspect shows it", func() bool {
		return strings.Contains(strings.Join(strings.Fields(s.verb("workflow", "inspect", "--all")), " "), problem)
	})
	got := s.get("/metrics")
	if line := `addon_operator_kube_jq_filter_errors_total{binding="seen",hook="hooks/a.sh",kind="ConfigMap",module="web",queue="side"} 1`; !strings.Contains(got, line) {
		t.Errorf("no line %s", line)
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "addon_operator_kube_") && strings.Contains(line, `hook=""`) && strings.Contains(line, `kind="`) {
			t.Errorf("the operator's own watch is among those of hooks: %s", line)
		}
	}
	seen.Data["items"] = "[1]"
	if _, err := maps.Update(t.Context(), seen, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("the problem is gone", func() bool { return !strings.Contains(s.verb("module", "list"), "jqFilter") })
}

func TestAFunctionIsRepeatedWithGrowingDelaysUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, calls := newWakeup(), make(chan time.Time, 10)
		var done atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			doOnWakeup(ctx, wake, retry.Delays{First: time.Minute, Longest: 4 * time.Minute}, func() bool {
				calls <- time.Now()
				return !done.Load()
			})
		}()
		called := func(what string, after time.Duration, want ...time.Duration) {
			t.Helper()
			began := time.Now()
			time.Sleep(after)
			synctest.Wait()
			var got []time.Duration
			for len(calls) > 0 {
				got = append(got, (<-calls).Sub(began))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: calls (-want +got):\n%s", what, d)
			}
		}
		called("before the first wakeup", time.Hour)
		wake.raise()
		called("not done", 12*time.Minute, 0, time.Minute, 3*time.Minute, 7*time.Minute, 11*time.Minute)
		wake.raise()
		called("woken between two calls", 2*time.Minute, 0, time.Minute)
		done.Store(true)
		called("done at the third call", time.Hour, time.Minute)
		cancel()
		<-ended
	})
}
