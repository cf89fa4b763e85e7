package helm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/helm"
)

// soon is the maximum time until a stopped upgrade returns. Usually it returns within 10 ms, but a machine can be
// busy. An upgrade that did not stop would wait for its Helm hook for minutes.
const soon = time.Minute

// wantError fails the test if err is nil, or if its text does not contain all parts.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

var errShutdown = errors.New("the operator is shutting down")

// stopped upgrades r, and ends the context before the n-th request with this method for ConfigMaps. It checks that the
// upgrade returns within the time in the constant soon, and leaves no goroutine. stopped returns the client of the
// upgrade, which sees its own writes. Another client might not see them at once, because the API server can answer from
// a cache.
func stopped(t *testing.T, b fixture, r helm.Release, method string, n int32) *helm.Client {
	t.Helper()
	m := b.render(t, r)
	ctx, cancel := context.WithCancelCause(t.Context())
	var at time.Time
	c := b.client(t, requests(method, "/configmaps", n, func() {
		at = time.Now()
		cancel(errShutdown)
	}))
	if _, err := c.Render(t.Context(), r); err != nil { // open the connections, so that their goroutines are not found as leaks
		t.Fatal(err)
	}

	running := goleak.IgnoreCurrent()
	_, err := c.Upgrade(ctx, r, m)
	if took := time.Since(at); took > soon {
		t.Errorf("the upgrade returned %s after its context ended", took)
	} else {
		t.Logf("the upgrade returned %s after its context ended", took)
	}
	if !errors.Is(err, errShutdown) {
		t.Errorf("the error does not carry the cause: %v", err)
	}
	if err := leaked(running); err != nil {
		t.Errorf("something of the upgrade still runs: %v", err)
	}
	return c
}

// leaked returns an error that names the goroutines that are not in running and do not end. It waits for goroutines
// that are about to end, which can take seconds on a busy machine.
func leaked(running goleak.Option) (err error) {
	for began := time.Now(); time.Since(began) < time.Minute; {
		if err = goleak.Find(running, ownConnections); err == nil {
			return nil
		}
	}
	return err
}

// ownConnections makes goleak ignore the goroutines of connections that net/http keeps open for further requests.
var ownConnections = goleak.IgnoreAnyFunction("net/http/internal/http2.(*ClientConn).readLoop")

// TestStoppedInstallFails and TestStoppedUpgradeFails are not parallel, because they check for leaked goroutines.
func TestStoppedInstallFails(t *testing.T) {
	b := start(t)
	r := wide(t, "wide", 60)
	b.Client = stopped(t, b, r, http.MethodPost, 10)

	b.state(t, "wide", helm.State{Status: helm.Failed, Revision: 1})
	if n := b.count(t, ""); n >= 60 {
		t.Fatalf("%d of 60 objects are there: the install was not stopped", n)
	}
	m, revision := b.apply(t, r)
	if revision != 2 {
		t.Errorf("the next upgrade is revision %d, want 2", revision)
	}
	b.state(t, "wide", helm.State{Status: helm.Deployed, Revision: 2, Checksum: m.Checksum})
	if n := b.count(t, ""); n != 60 {
		t.Errorf("%d objects are there, want 60", n)
	}
}

func TestStoppedUpgradeFails(t *testing.T) {
	b := start(t)
	r := wide(t, "wide", 60)
	b.apply(t, r)
	changed := with(r, "size", "2")
	b.Client = stopped(t, b, changed, http.MethodPatch, 30)

	b.state(t, "wide", helm.State{Status: helm.Failed, Revision: 2})
	if got := b.record(t, "wide", 1).Labels["status"]; got != "deployed" {
		t.Errorf("revision 1 is %s, want still deployed", got)
	}
	if n := b.count(t, "2"); n < 29 || n > 31 {
		t.Errorf("%d objects were changed, want the upgrade to have stopped at the 30th", n)
	}
	m, revision := b.apply(t, changed)
	if revision != 3 {
		t.Errorf("the next upgrade is revision %d, want 3", revision)
	}
	b.state(t, "wide", helm.State{Status: helm.Deployed, Revision: 3, Checksum: m.Checksum})
	if n := b.count(t, "2"); n != 60 {
		t.Errorf("%d objects are changed, want 60", n)
	}
}

// TestUpgradeStoppedWhileItDeletesDroppedObjectsFails ends the context of an upgrade while the upgrade deletes the
// objects that are not in the new chart. The next upgrade must delete the remaining ones.
func TestUpgradeStoppedWhileItDeletesDroppedObjectsFails(t *testing.T) {
	b := start(t)
	b.apply(t, wide(t, "wide", 20))
	fewer := wide(t, "wide", 1)
	b.Client = stopped(t, b, fewer, http.MethodDelete, 3)

	b.state(t, "wide", helm.State{Status: helm.Failed, Revision: 2})
	if got := b.record(t, "wide", 1).Labels["status"]; got != "deployed" {
		t.Errorf("revision 1 is %s, want still deployed", got)
	}
	if n := b.count(t, ""); n < 17 || n > 18 {
		t.Errorf("%d objects are there, want the upgrade to have stopped at the third deletion", n)
	}
	m, _ := b.apply(t, fewer)
	b.state(t, "wide", helm.State{Status: helm.Deployed, Revision: 3, Checksum: m.Checksum})
	if n := b.count(t, ""); n != 1 {
		t.Errorf("%d objects are there, want 1", n)
	}
}

// count returns the number of ConfigMaps that belong to releases and whose key "size" has this value. "" means any
// value.
func (b fixture) count(t *testing.T, size string) int {
	t.Helper()
	list, err := b.kube.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "heritage=addon-operator"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range list.Items {
		if size == "" || m.Data["size"] == size {
			n++
		}
	}
	return n
}

func TestUpgradeAfterTheEndChangesNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "late")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Upgrade(ctx, r, helm.Manifest{Checksum: "any"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
	b.state(t, "late", helm.State{Status: helm.Absent})
}

// hooked returns a release whose chart has a ConfigMap, and a Job that is a Helm hook for this event. The YAML text
// spec is added to the spec of the Job.
func hooked(t *testing.T, name, event, spec string) helm.Release {
	t.Helper()
	return module(t, name, files{
		"Chart.yaml":       chartYAML,
		"templates/a.yaml": configMap(name),
		"templates/job.yaml": strings.Replace(job(name+"-hook", spec), "metadata:\n",
			fmt.Sprintf("metadata:\n  annotations: {helm.sh/hook: %s}\n", event), 1),
	})
}

// suspended is a part of the spec of a Job. With it, the Job never ends.
const suspended = "  suspend: true\n"

func TestHelmHooksRunAndAreWaitedFor(t *testing.T) {
	t.Parallel()
	var documents atomic.Int32
	b := start(t, each(func(r *http.Request) {
		if strings.Contains(r.URL.Path, "/openapi") {
			documents.Add(1)
		}
	}))
	r := hooked(t, "job", `"pre-install,pre-upgrade"`, "")
	b.apply(t, r)
	done, err := b.kube.BatchV1().Jobs(b.namespace).Get(t.Context(), "job-hook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if done.Status.Succeeded != 1 {
		t.Errorf("the hook was not waited for: %+v", done.Status)
	}
	// The next upgrade must delete the Job, wait until it does not exist, and create it again.
	b.apply(t, with(r, "size", "2"))
	again, err := b.kube.BatchV1().Jobs(b.namespace).Get(t.Context(), "job-hook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.UID == done.UID {
		t.Error("the hook did not run again")
	}
	if n := documents.Load(); n > 0 {
		t.Errorf("%d OpenAPI documents were read, which takes longer than all the rest", n)
	}
}

func TestHelmHookThatTakesTooLongFails(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *helm.Options) { o.Timeout = 300 * time.Millisecond })
	r := hooked(t, "slow", "post-install", suspended)
	_, err := b.Upgrade(t.Context(), r, helm.Manifest{Checksum: "any"})
	wantError(t, err, `upgrade release "slow"`, "slow-hook", "not done within 300ms")
	b.state(t, "slow", helm.State{Status: helm.Failed, Revision: 1})
}

func TestHelmHookThatTheOperatorMayNotWatchFails(t *testing.T) {
	t.Parallel()
	for verb, isWatch := range map[string]bool{"list": false, "watch": true} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			text := "jobs.batch is forbidden: the operator cannot " + verb + " jobs"
			b := start(t, failing(func(r *http.Request) bool {
				query := r.URL.Query()
				// Package cache first requests a watch with the parameter sendInitialEvents. It requests a list only if
				// this watch fails, so this watch is forbidden, too.
				return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/jobs") &&
					(query.Get("watch") == "true" == isWatch || query.Has("sendInitialEvents"))
			}, http.StatusForbidden, metav1.StatusReasonForbidden, text))
			begin := time.Now()
			_, err := b.Upgrade(t.Context(), hooked(t, "blind", "post-install", suspended), helm.Manifest{Checksum: "any"})
			wantError(t, err, `upgrade release "blind"`, "blind-hook", text)
			if took := time.Since(begin); took > soon {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestWaitForHelmHookEndsWithUpgrade(t *testing.T) {
	b := start(t)
	r := hooked(t, "slow", "post-install", suspended)
	ctx, cancel := context.WithCancelCause(t.Context())
	b.Client = b.client(t, requests(http.MethodGet, "/jobs", 1, func() { cancel(errShutdown) }))
	if _, err := b.Render(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	running := goleak.IgnoreCurrent()
	begin := time.Now()
	if _, err := b.Upgrade(ctx, r, helm.Manifest{Checksum: "any"}); !errors.Is(err, errShutdown) {
		t.Errorf("error is %v, want the cause", err)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("it took %s", took)
	}
	b.state(t, "slow", helm.State{Status: helm.Failed, Revision: 1})
	if err := leaked(running); err != nil {
		t.Errorf("something of the upgrade still runs: %v", err)
	}
}

func TestUninstallIsNotStoppedHalfWay(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, wide(t, "wide", 20))
	ctx, cancel := context.WithCancel(t.Context())
	b.Client = b.client(t, requests(http.MethodDelete, "/configmaps", 5, cancel))
	if _, err := b.Uninstall(ctx, "wide"); err != nil {
		t.Fatal(err)
	}
	b.state(t, "wide", helm.State{Status: helm.Absent})
	if n := b.count(t, ""); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}
