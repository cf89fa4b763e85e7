package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/cmd/addon-operator/webhooks"
	"addon-operator/e2e/cluster"
	"addon-operator/internal/lease"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
)

// recording returns a fixture with one module. The hook of the module appends the binding of each run to the file
// "runs". The hook's beforeHelm run does not end while the file "hold" exists.
func recording(t *testing.T, name string) *fixture {
	t.Helper()
	s := newFixture(t)
	s.file("modules/values.yaml", "modEnabled: true\n")
	s.file("modules/001-mod/hooks/hook.sh", hookText(`{"configVersion":"v1","onStartup":1,"beforeHelm":1}`,
		fmt.Sprintf(`jq -r '.[0].binding' "$BINDING_CONTEXT_PATH" >> %[1]s/runs
[[ $(jq -r '.[0].binding' "$BINDING_CONTEXT_PATH") == onStartup ]] || while [[ -e %[1]s/hold ]]; do sleep 0.05; done`, s.dir)))
	s.file("modules/001-mod/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mod}\ndata: {by: "+name+"}\n")
	return s
}

// runs returns the bindings for which the hook of the fixture has run, separated by spaces.
func (s *fixture) runs() string {
	text, err := os.ReadFile(s.path("runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestSecondOperatorOfANamespaceWaitsAndTakesOver(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	a, b := recording(t, "a"), recording(t, "b")
	a.start(c.Kubeconfig(), namespace)
	a.converged()
	held, err := client(t, c).CoordinationV1().Leases(namespace).Get(t.Context(), "addon-operator-leader-election", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if held.Annotations[lease.StoreAnnotation] == "" || held.Annotations[lease.EpochAnnotation] != "1" {
		t.Errorf("the annotations of the Lease are %v", held.Annotations)
	}
	b.start(c.Kubeconfig(), namespace)
	waiting := "waiting for Lease " + namespace + "/addon-operator-leader-election, which " + *held.Spec.HolderIdentity
	b.until("it says for whom it waits", func() bool {
		return strings.HasPrefix(b.get("/readyz"), "Standby: "+waiting) && strings.Contains(b.log.String(), "standby: "+waiting)
	})
	if inspected, err := process(t, "workflow", "inspect", "--debug-unix-socket", b.path("socket")).CombinedOutput(); !strings.Contains(string(inspected), waiting) {
		t.Errorf("workflow inspect: %v\n%s", err, inspected)
	}
	time.Sleep(time.Second) // within this time, an operator that does not wait for the Lease would run its hooks
	if got := b.runs(); got != "" {
		t.Errorf("the standby ran hooks: %s", got)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	b.until("it takes over", func() bool { return strings.HasPrefix(b.get("/readyz"), "Startup converge done") })
	if got := b.runs(); got != "onStartup beforeHelm" {
		t.Errorf("it ran hooks for %s", got)
	}
	object, err := client(t, c).CoreV1().ConfigMaps(namespace).Get(t.Context(), "mod", metav1.GetOptions{})
	if err != nil || object.Data["by"] != "b" {
		t.Errorf("the object is by %s (%v)", object.Data["by"], err)
	}
}

func TestAStandbyTellsAnErrorOfTheLeaseFromAnotherHolder(t *testing.T) {
	t.Parallel()
	l := &leadership{log: zerolog.Nop()}
	if got := l.waiting(); got != (debugapi.Standby{}) {
		t.Errorf("before it waits: %+v", got)
	}
	var err error
	if l.lease, err = lease.New(lease.Options{Config: new(rest.Config), Namespace: "ops"}); err != nil {
		t.Fatal(err)
	}
	const waiting = "waiting for Lease ops/addon-operator-leader-election"
	var since time.Time
	for _, step := range []struct {
		holder lease.Holder
		err    error
		want   debugapi.Standby
	}{
		{lease.Holder{}, errors.New("no route"), debugapi.Standby{Text: waiting + ": no route", Error: "no route"}},
		{lease.Holder{Identity: "pod-1"}, nil, debugapi.Standby{Text: waiting + ", which pod-1 holds"}},
		{lease.Holder{Identity: "pod-1"}, errors.New("no route"), debugapi.Standby{Text: waiting + ": no route", Error: "no route"}},
	} {
		l.setStandby(step.holder, step.err)
		got := l.waiting()
		since = cmp.Or(since, got.Since)
		step.want.Since = since
		if got != step.want || since.IsZero() {
			t.Errorf("with holder %q and error %v: %+v", step.holder.Identity, step.err, got)
		}
	}
}

func TestTheLeaseIsRenewedWhileTheOperatorPreparesAndReleasedIfItGivesUp(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := &leadership{
		settings: &settings.Settings{Namespace: namespace}, log: zerolog.Nop(), config: c.Config(), file: &storeFile{db: storetest.Memory(t), log: zerolog.Nop()},
	}
	if err := l.acquire(ctx); err != nil {
		t.Fatal(err)
	}
	<-l.got
	if l.err != nil {
		t.Fatal(l.err)
	}
	read := func() *coordinationv1.Lease {
		t.Helper()
		held, err := client(t, c).CoordinationV1().Leases(namespace).Get(t.Context(), lease.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	acquired := read().Spec.RenewTime
	cancel() // a process that is stopping keeps the Lease until all its work has ended
	newFixture(t).until("the Lease is renewed", func() bool { return read().Spec.RenewTime.After(acquired.Time) })
	l.release()
	if holder := *read().Spec.HolderIdentity; holder != "" {
		t.Errorf("%s still holds the Lease", holder)
	}
}

func TestOperatorThatLosesItsLeaseEndsAndChangesNothingMore(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := recording(t, "a")
	s.file("hold", "")
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), readSettings(t, s.flags(c.Kubeconfig(), namespace)...), &s.log) }()
	s.until("the hook runs", func() bool { return s.runs() == "onStartup beforeHelm" })
	leases := client(t, c).CoordinationV1().Leases(namespace)
	for {
		held, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		thief, next := "thief", *held.Spec.LeaseTransitions+1
		held.Spec.HolderIdentity, held.Spec.LeaseTransitions = &thief, &next
		if _, err = leases.Update(t.Context(), held, metav1.UpdateOptions{}); err == nil {
			break
		} else if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		if !errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), "is held by thief") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(90 * time.Second):
		t.Fatalf("it goes on; the log:\n%s", s.log.String())
	}
	if _, err := client(t, c).CoreV1().ConfigMaps(namespace).Get(t.Context(), "mod", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its release is installed: %v", err)
	}
	db, err := store.Open(s.path("store.db"), store.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if !db.ExitedCleanly(db.Epoch() - 1) {
		t.Error("its end is treated as a crash")
	}
}

// TestHooksAreKilledIfTheLeaseIsLostDuringAShutdown stops an operator whose hook goes on for a while.
func TestHooksAreKilledIfTheLeaseIsLostDuringAShutdown(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	engine, err := workflow.New(db, workflow.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{log: zerolog.Nop(), db: db, engine: engine, leadership: &leadership{file: &storeFile{db: db}, log: zerolog.Nop()}}
	o.settings.WithdrawWebhooks = settings.WithdrawNever
	o.webhooks = webhooks.New(webhooks.Options{Settings: &o.settings, Log: o.log, DB: db})
	hook := exec.CommandContext(t.Context(), "sleep", "5")
	hook.Env = []string{"ADDON_OPERATOR_STORE_ID=" + db.ID()}
	if err := hook.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = o.awaitEnd(ctx, t.Context(), func() error {
		db.Fence(lease.ErrLost)
		return hook.Wait()
	})
	if err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("the operator ended with %v", err)
	}
}

func TestRequestsThatChangeTheClusterAreRefusedWithoutTheLease(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := readSettings(t, "--namespace", namespace, "--kube-config", c.Kubeconfig())
	o := &operator{settings: s}
	if err := o.connect(); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.leadership.lease, err = lease.New(lease.Options{Config: o.leadership.config, Namespace: namespace, Identity: "me", Clock: time.Now}); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		objects := o.client.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace)
		if _, err := objects.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("a read fails: %v", err)
		}
		return objects.Delete(t.Context(), "none", metav1.DeleteOptions{})
	}
	if err := write(); err == nil || !strings.Contains(err.Error(), "is not held yet") {
		t.Errorf("before the Lease is held: %v", err)
	}
	if _, err := o.leadership.lease.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := write(); !apierrors.IsNotFound(err) {
		t.Errorf("while the Lease is held: %v", err)
	}
	if err := o.leadership.lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := write(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("after the Lease was released: %v", err)
	}
}

func TestStoreThatAnotherOperatorHasOvertakenStartsColdAndSaysWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, interlude := range map[string]struct {
		between func(t *testing.T, c *cluster.Cluster, namespace string, s *fixture)
		why     string
		runs    string
	}{
		"nobody worked in between": {func(*testing.T, *cluster.Cluster, string, *fixture) {}, "", "onStartup beforeHelm beforeHelm"},
		"another store": {func(t *testing.T, c *cluster.Cluster, namespace string, _ *fixture) {
			t.Helper()
			other := recording(t, "other")
			other.start(c.Kubeconfig(), namespace)
			other.converged()
			if err := other.end(); err != nil {
				t.Fatal(err)
			}
		}, "an operator with another store", "onStartup beforeHelm onStartup beforeHelm"},
		"a snapshot of this epoch is restored": {func(t *testing.T, _ *cluster.Cluster, _ string, s *fixture) {
			t.Helper()
			if err := os.Rename(s.path("snapshot"), s.path("store.db")); err != nil {
				t.Fatal(err)
			}
		}, "the store is a copy, made in epoch 1", "onStartup beforeHelm onStartup beforeHelm"},
		"a snapshot is restored in the place of a corrupt file": {func(t *testing.T, _ *cluster.Cluster, _ string, s *fixture) {
			t.Helper()
			whole, err := os.ReadFile(s.path("store.db"))
			if err != nil {
				t.Fatal(err)
			}
			corrupt := append(whole[:2*4096:2*4096], make([]byte, len(whole)-2*4096)...)
			if err := os.WriteFile(s.path("store.db"), corrupt, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := process(t, "store", "restore", s.path("snapshot"), "--store", s.path("store.db")).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "store.db.replaced.1") || !strings.Contains(string(out), "lost      what happened from ") {
				t.Errorf("store restore: %v\n%s", err, out)
			}
			if aside, err := os.ReadFile(s.path("store.db.replaced.1")); err != nil || !bytes.Equal(aside, corrupt) {
				t.Errorf("the corrupt file was not renamed: %v", err)
			}
			out, err = process(t, "status", "--store", s.path("store.db")).CombinedOutput()
			if !strings.Contains(string(out), "lost      the snapshot snapshot, made in") {
				t.Errorf("status of the restored store: %v\n%s", err, out)
			}
		}, "the snapshot snapshot, made in epoch 1, was restored", "onStartup beforeHelm onStartup beforeHelm"},
		"a file of an earlier epoch is restored": {func(t *testing.T, c *cluster.Cluster, namespace string, s *fixture) {
			t.Helper()
			old, err := os.ReadFile(s.path("store.db"))
			if err != nil {
				t.Fatal(err)
			}
			s.start(c.Kubeconfig(), namespace)
			s.until("the hook runs again", func() bool { return s.runs() == "onStartup beforeHelm beforeHelm" })
			if err := errors.Join(s.end(), os.WriteFile(s.path("store.db"), old, 0o600), os.Truncate(s.path("runs"), 0)); err != nil {
				t.Fatal(err)
			}
		}, "the store ends with epoch 1, but an operator worked with it until epoch 2", "onStartup beforeHelm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t)
			namespace := c.Namespace(t)
			s := recording(t, "a")
			s.file("hold", "")
			s.start(c.Kubeconfig(), namespace)
			s.until("the hook runs", func() bool { return s.runs() == "onStartup beforeHelm" })
			if out, err := process(t, "store", "snapshot", s.path("snapshot"), "--debug-unix-socket", s.path("socket")).CombinedOutput(); err != nil {
				t.Fatalf("store snapshot: %v\n%s", err, out)
			}
			if err := s.end(); err != nil {
				t.Fatal(err)
			}
			interlude.between(t, c, namespace, s)
			if err := os.Remove(filepath.Join(s.dir, "hold")); err != nil {
				t.Fatal(err)
			}
			s.start(c.Kubeconfig(), namespace)
			s.until("it is ready", func() bool { return strings.HasPrefix(s.get("/readyz"), "Startup converge done") })
			if got := s.runs(); got != interlude.runs {
				t.Errorf("hooks ran for %s, not %s", got, interlude.runs)
			}
			log := s.log.String()
			if dropped := strings.Contains(log, "pending work of the store is dropped"); dropped != (interlude.why != "") || !strings.Contains(log, interlude.why) {
				t.Errorf("the log has no %q:\n%s", interlude.why, log)
			}
			out, err := process(t, "workflow", "list", "--debug-unix-socket", s.path("socket"), "-o", "json").CombinedOutput()
			if err != nil || !strings.Contains(string(out), interlude.why) {
				t.Errorf("workflow list: %v\n%s", err, out)
			}
			for _, verb := range [][]string{{"status"}, {"workflow", "inspect"}} {
				out, err := process(t, append(verb, "--debug-unix-socket", s.path("socket"))...).CombinedOutput()
				words := strings.Join(strings.Fields(string(out)), " ")
				if shown := strings.Contains(words, "it is unknown what happened from"); err != nil || shown != (interlude.why != "") || !strings.Contains(words, interlude.why) {
					t.Errorf("%v: %v\n%s", verb, err, out)
				}
			}
		})
	}
}

func TestOperatorWithoutRightsToLeasesStartsOnlyWhenAskedTo(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := recording(t, "a")
	text, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "nobody"
	}
	if err := clientcmd.WriteToFile(*config, s.path("kubeconfig")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	err = Run(ctx, readSettings(t, s.flags(s.path("kubeconfig"), namespace)...), &s.log)
	if !errors.Is(err, lease.ErrForbidden) || !strings.Contains(err.Error(), "--lease=off") {
		t.Errorf("it ended with %v", err)
	}
	s.start(c.Kubeconfig(), namespace, "--lease=off")
	s.converged()
	if _, err := client(t, c).CoordinationV1().Leases(namespace).Get(t.Context(), lease.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a Lease: %v", err)
	}
}
