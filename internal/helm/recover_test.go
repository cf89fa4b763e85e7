package helm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/helm"
)

// record returns the Secret in which Helm has stored a revision.
func (b fixture) record(t testing.TB, release string, revision int) *corev1.Secret {
	t.Helper()
	name := fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, revision)
	s, err := b.kube.CoreV1().Secrets(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// update writes a Secret with another client, and waits until the cache of the API server contains the change. The
// tested client lists Secrets from this cache. The tested client does not know of this write, so without the wait it
// would accept an older list.
func (b fixture) update(t testing.TB, s *corev1.Secret) {
	t.Helper()
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	written, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.List(t.Context(), metav1.ListOptions{
		ResourceVersion: written.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}); err != nil {
		t.Fatal(err)
	}
}

// rewrite changes the Secret of a revision. It passes the labels of the Secret, and the decoded release in it, to the
// function change, which modifies them.
func (b fixture) rewrite(t testing.TB, s *corev1.Secret, change func(labels map[string]string, release map[string]any)) {
	t.Helper()
	zipped, err := base64.StdEncoding.DecodeString(string(s.Data["release"]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	var written map[string]any
	if err := json.Unmarshal(raw, &written); err != nil {
		t.Fatal(err)
	}
	change(s.Labels, written)
	if raw, err = json.Marshal(written); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.Data["release"] = []byte(base64.StdEncoding.EncodeToString(out.Bytes()))
	b.update(t, s)
}

// relabel sets the status of a stored revision, for example to the status that a killed process leaves.
func (b fixture) relabel(t testing.TB, release string, revision int, status string) {
	t.Helper()
	b.rewrite(t, b.record(t, release, revision), func(labels map[string]string, written map[string]any) {
		labels["status"] = status
		info, ok := written["info"].(map[string]any)
		if !ok {
			t.Fatalf("the record of %s has no info", release)
		}
		info["status"] = status
	})
}

func TestKilledInstallIsDoneAgainAsTheSameRevision(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "web")
	m, _ := b.apply(t, r)
	b.relabel(t, "web", 1, "pending-install")
	if err := b.kube.CoreV1().Services(b.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.state(t, "web", helm.State{Status: helm.Pending, Revision: 1})

	if _, revision := b.apply(t, r); revision != 1 {
		t.Errorf("the install is now revision %d, want 1 again", revision)
	}
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum})
	if missing, err := b.Missing(t.Context(), m.Objects); err != nil || len(missing) > 0 {
		t.Errorf("%v are missing (error %v)", missing, err)
	}
}

// TestKilledInstallIsDoneAgainWithItsObjects repeats a killed install with a manifest that has no text. The chart
// renders one of its objects only for an install. Both objects are in the chart, so neither must be deleted.
func TestKilledInstallIsDoneAgainWithItsObjects(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "web", files{
		"Chart.yaml": chartYAML, "templates/always.yaml": configMap("always"),
		"templates/first.yaml": "{{ if .Release.IsInstall }}\n" + configMap("first") + "{{ end }}\n",
	})
	b.apply(t, r)
	want := []types.UID{b.uid(t, "always"), b.uid(t, "first")}
	b.relabel(t, "web", 1, "pending-install")

	m := b.render(t, r)
	m.Text = ""
	if _, err := b.Upgrade(t.Context(), r, m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, []types.UID{b.uid(t, "always"), b.uid(t, "first")}); diff != "" {
		t.Errorf("UIDs of the objects (-want +got):\n%s", diff)
	}
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum})
}

func TestKilledUpgradeIsDoneAgainAsTheSameRevision(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"pending-upgrade", "pending-rollback"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			r := small(t, "web")
			b.apply(t, r)
			b.apply(t, with(r, "size", "2"))
			b.relabel(t, "web", 2, status)
			b.relabel(t, "web", 1, "deployed")
			b.state(t, "web", helm.State{Status: helm.Pending, Revision: 2})

			m, revision := b.apply(t, with(r, "size", "3"))
			if revision != 2 {
				t.Errorf("the upgrade is now revision %d, want 2 again", revision)
			}
			b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 2, Checksum: m.Checksum})
			if got, _ := b.configMap(t, "web"); got.Data["size"] != "3" {
				t.Errorf("the ConfigMap holds %v", got.Data)
			}
			if got := b.records(t, "web"); len(got) != 2 {
				t.Errorf("records are %v, want two", got)
			}
		})
	}
}

// TestUpgradeKilledAtItsVeryEndIsDoneAgain upgrades a release after a process was killed between the last two writes
// of an upgrade: the old revision is already superseded, and the new revision is not deployed yet. The upgrade must use
// the number of the new revision again.
func TestUpgradeKilledAtItsVeryEndIsDoneAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "web")
	b.apply(t, r)
	b.apply(t, with(r, "size", "2"))
	b.relabel(t, "web", 2, "pending-upgrade")

	m, revision := b.apply(t, with(r, "size", "2"))
	if revision != 2 {
		t.Errorf("the upgrade is now revision %d, want 2 again", revision)
	}
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 2, Checksum: m.Checksum})
}

// TestLastWriteOfARecordIsRepeated lets the API server reject the write that sets the status of a new revision to
// deployed: once, or always.
func TestLastWriteOfARecordIsRepeated(t *testing.T) {
	t.Parallel()
	for action, revision := range map[string]int{"install": 1, "upgrade": 2} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			r := small(t, "web")
			if action == "upgrade" {
				b.apply(t, r)
				r = with(r, "size", "2")
			}
			m, path := b.render(t, r), fmt.Sprintf("/secrets/sh.helm.release.v1.web.v%d", revision)

			b.Client = b.client(t, failing(func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, path)
			}, http.StatusInternalServerError, metav1.StatusReasonInternalError, "overloaded"))
			_, err := b.Upgrade(t.Context(), r, m)
			wantError(t, err, fmt.Sprintf(`upgrade release "web": write revision %d: `, revision), "overloaded")
			b.state(t, "web", helm.State{Status: helm.Pending, Revision: revision})

			b.Client = b.client(t, failingOnce(http.MethodPut, path, http.StatusInternalServerError, "overloaded"))
			if _, err := b.Upgrade(t.Context(), r, m); err != nil {
				t.Fatal(err)
			}
			b.state(t, "web", helm.State{Status: helm.Deployed, Revision: revision, Checksum: m.Checksum})
		})
	}
}

func TestUninstallThatWasBegunIsEndedBeforeAnInstall(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"uninstalling", "uninstalled"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.apply(t, module(t, "back", files{
				"Chart.yaml": chartYAML, "templates/a.yaml": configMap("back"), "templates/b.yaml": configMap("only-before"),
			}))
			b.relabel(t, "back", 1, status)
			b.state(t, "back", helm.State{Status: helm.Uninstalling, Revision: 1})

			m, revision := b.apply(t, module(t, "back", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("back")}))
			if revision != 1 {
				t.Errorf("the install is revision %d, want 1", revision)
			}
			b.state(t, "back", helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum})
			// A release with the status "uninstalled" was uninstalled with its history kept. It has no objects, so
			// Helm deletes none.
			if _, ok := b.configMap(t, "only-before"); ok && status == "uninstalling" {
				t.Error("an object of the uninstalled release is still there")
			}
		})
	}
}

func TestFailedReleaseIsUpgraded(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "web")
	b.apply(t, r)
	b.relabel(t, "web", 1, "failed")
	b.state(t, "web", helm.State{Status: helm.Failed, Revision: 1})
	if _, revision := b.apply(t, r); revision != 2 {
		t.Errorf("the upgrade is revision %d, want 2", revision)
	}
}

func TestChecksumOfOlderReleasesIsRead(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "old")
	m, _ := b.apply(t, r)
	b.rewrite(t, b.record(t, "old", 1), func(labels map[string]string, written map[string]any) {
		delete(labels, "moduleChecksum")
		written["config"] = map[string]any{"_addonOperatorModuleChecksum": m.Checksum}
	})
	b.state(t, "old", helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum})
}

func TestReleaseWithoutChecksumIsUpgradedOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "foreign")
	b.apply(t, r)
	b.rewrite(t, b.record(t, "foreign", 1), func(labels map[string]string, _ map[string]any) {
		delete(labels, "moduleChecksum")
	})
	found, err := b.Find(t.Context(), "foreign")
	if err != nil {
		t.Fatal(err)
	}
	m := b.render(t, r)
	if !found.Outdated(m.Checksum) {
		t.Error("a release without a checksum is not outdated")
	}
	if _, revision := b.apply(t, r); revision != 2 {
		t.Errorf("the upgrade is revision %d, want 2", revision)
	}
	b.state(t, "foreign", helm.State{Status: helm.Deployed, Revision: 2, Checksum: m.Checksum})
}

func TestRecordThatCannotBeDecodedIsReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "torn")
	b.apply(t, r)
	s := b.record(t, "torn", 1)
	s.Data["release"] = []byte("bm90IGEgcmVsZWFzZQ==")
	b.update(t, s)
	_, err := b.Upgrade(t.Context(), with(r, "size", "2"), helm.Manifest{Checksum: "another"})
	wantError(t, err, `upgrade release "torn"`, "none of its revisions can be decoded", "Secrets sh.helm.release.v1.torn.v*")
	_, err = b.Uninstall(t.Context(), "torn")
	wantError(t, err, `uninstall release "torn"`, "none of its revisions can be decoded", "Secrets sh.helm.release.v1.torn.v*")
	if got := b.records(t, "torn"); len(got) != 1 {
		t.Errorf("records are %v: nothing must be removed if the state is unknown", got)
	}
}

func TestRecordThatCannotBeDecodedKeepsTheObjectsOfAKilledUpgrade(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, wide(t, "torn", 1))
	b.apply(t, wide(t, "torn", 3))
	b.relabel(t, "torn", 2, "pending-upgrade")
	s := b.record(t, "torn", 1)
	s.Data["release"] = []byte("bm90IGEgcmVsZWFzZQ==")
	b.update(t, s)
	r := wide(t, "torn", 1)
	_, err := b.Upgrade(t.Context(), r, b.render(t, r))
	wantError(t, err, `upgrade release "torn"`, "none of its revisions can be decoded")
	if n := b.count(t, ""); n != 3 {
		t.Errorf("%d objects are left, want 3", n)
	}
}

func TestUninstallRemovesObjectsAndHistory(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "away", files{
		"Chart.yaml": chartYAML, "templates/a.yaml": configMap("away"),
		"templates/keep.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n",
	})
	if _, err := b.Uninstall(t.Context(), "away"); err != nil {
		t.Errorf("uninstall of an absent release: %v", err)
	}
	b.apply(t, r)
	b.apply(t, with(r, "size", "2"))
	for range 2 {
		if _, err := b.Uninstall(t.Context(), "away"); err != nil {
			t.Fatal(err)
		}
		b.state(t, "away", helm.State{Status: helm.Absent})
	}
	if got := b.records(t, "away"); len(got) > 0 {
		t.Errorf("records %v are left", got)
	}
	if _, ok := b.configMap(t, "away"); ok {
		t.Error("the object is left")
	}
	if _, ok := b.configMap(t, "kept"); !ok {
		t.Error("the object with the resource policy keep is gone")
	}
}

func TestUninstallGoesOnFromEveryState(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"failed", "pending-install", "pending-upgrade", "uninstalling", "superseded"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.apply(t, module(t, "away", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("away")}))
			b.relabel(t, "away", 1, status)
			if _, err := b.Uninstall(t.Context(), "away"); err != nil {
				t.Fatal(err)
			}
			b.state(t, "away", helm.State{Status: helm.Absent})
			if _, ok := b.configMap(t, "away"); ok {
				t.Error("the object is left")
			}
		})
	}
}

// TestUninstallAfterFailedUpgradeLeavesNothing uninstalls a release after a failed upgrade. The upgrade has not
// deleted the objects that are not in the new chart, so the uninstall must delete them.
func TestUninstallAfterFailedUpgradeLeavesNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, module(t, "half", files{
		"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a"), "templates/b.yaml": configMap("dropped"),
	}))
	b.refused(t, "half", "a")
	b.state(t, "half", helm.State{Status: helm.Failed, Revision: 2})
	if _, ok := b.configMap(t, "dropped"); !ok {
		t.Fatal("the failed upgrade went further than this test is about")
	}

	if _, err := b.Uninstall(t.Context(), "half"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), b.left(t)); diff != "" {
		t.Errorf("objects left (-want +got):\n%s", diff)
	}
}

// TestObjectsOfAFailedUpgradeAreDeletedByTheNext stops two upgrades after each has created objects, and then upgrades
// back to the first chart. The chart of the second upgrade does not have the objects of the first upgrade.
func TestObjectsOfAFailedUpgradeAreDeletedByTheNext(t *testing.T) {
	b := start(t)
	r := wide(t, "web", 1)
	b.apply(t, r)
	b.Client = stopped(t, b, wide(t, "web", 10), http.MethodPost, 5)
	b.Client = stopped(t, b, module(t, "web", files{
		"Chart.yaml": chartYAML, "templates/a.yaml": configMap("web-0"), "templates/b.yaml": configMap("web-a"), "templates/c.yaml": configMap("web-b"),
	}), http.MethodPost, 2)
	if n := b.count(t, ""); n < 6 {
		t.Fatalf("%d objects are there: the upgrades were stopped too early for this test", n)
	}

	m, _ := b.apply(t, r)
	if n := b.count(t, ""); n != 1 {
		t.Errorf("%d objects are there, want 1", n)
	}
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 4, Checksum: m.Checksum})
	if changes, err := b.Changes("web", 1, m); err != nil || len(changes) > 0 {
		t.Errorf("a rollback to revision 1 would change %v (error %v)", changes, err)
	}
}

// TestCustomResourceOfAFailedUpgradeIsChangedBack upgrades a release back to the chart of its deployed revision. A
// failed or killed upgrade has changed a custom resource in the meantime.
func TestCustomResourceOfAFailedUpgradeIsChangedBack(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"failed", "pending-upgrade"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.define(t)
			r := b.sharingGadget(t, "web")
			b.apply(t, with(r, "size", 1))
			b.apply(t, with(r, "size", 2))
			b.relabel(t, "web", 2, status)
			b.relabel(t, "web", 1, "deployed")
			b.gadgetIs(t, "web", "2")
			b.apply(t, with(r, "size", 1))
			b.gadgetIs(t, "web", "1")
		})
	}
}

// TestCustomResourceOfAFailedInstallIsChanged upgrades a release whose install has failed before it changed an existing
// custom resource.
func TestCustomResourceOfAFailedInstallIsChanged(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	b.apply(t, with(b.sharingGadget(t, "old"), "size", 1))
	r := with(b.sharingGadget(t, "new"), "size", 2)
	bad := filepath.Join(r.ChartDir, "templates/bad.yaml")
	if err := os.WriteFile(bad, []byte("apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: -1}]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := b.Upgrade(t.Context(), r, b.render(t, r))
	wantError(t, err, `upgrade release "new"`, "spec.ports[0].port")
	b.gadgetIs(t, "old", "1")
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	b.apply(t, r)
	b.gadgetIs(t, "new", "2")
}

// TestObjectsOfAKilledInstallAreUninstalledAfterAStoppedUpgrade stops an upgrade after a killed install: its context
// ends with the request that removes the record of the install, or with the first request for objects. After that, an
// uninstall must find the objects of the install.
func TestObjectsOfAKilledInstallAreUninstalledAfterAStoppedUpgrade(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]struct{ method, path string }{
		"at the removal of the record": {http.MethodDelete, "/secrets/sh.helm.release.v1.web.v1"},
		"at an object":                 {http.MethodGet, "/configmaps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.apply(t, wide(t, "web", 3))
			b.relabel(t, "web", 1, "pending-install")
			ctx, cancel := context.WithCancel(t.Context())
			c := b.client(t, after(request.method, request.path, cancel))
			r := wide(t, "web", 3)
			_, err := c.Upgrade(ctx, r, b.render(t, r))
			t.Log("the upgrade ended:", err)
			if ctx.Err() == nil {
				t.Fatal("the upgrade was not stopped")
			}
			if _, err := b.Uninstall(t.Context(), "web"); err != nil {
				t.Fatal(err)
			}
			if n := b.count(t, ""); n != 0 {
				t.Errorf("%d objects are left", n)
			}
		})
	}
}

func TestObjectsOfAKilledActionAreDeletedByTheNext(t *testing.T) {
	t.Parallel()
	for status, revision := range map[string]int{"pending-install": 1, "pending-upgrade": 2} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			if revision > 1 {
				b.apply(t, wide(t, "web", 1))
			}
			b.apply(t, wide(t, "web", 3))
			b.relabel(t, "web", revision, status)
			if revision > 1 {
				b.relabel(t, "web", 1, "deployed")
			}

			m, again := b.apply(t, wide(t, "web", 1))
			b.state(t, "web", helm.State{Status: helm.Deployed, Revision: revision, Checksum: m.Checksum})
			if n := b.count(t, ""); n != 1 || again != revision {
				t.Errorf("after revision %d, %d objects are there; want 1 after revision %d", again, n, revision)
			}
		})
	}
}

// TestObjectsThatNoFailedUpgradeHasCreatedAreKept upgrades or uninstalls a release after two failed upgrades. The chart
// of the first of them has two objects that do not belong to the release, and one with the resource policy "keep".
// These three objects must stay.
func TestObjectsThatNoFailedUpgradeHasCreatedAreKept(t *testing.T) {
	t.Parallel()
	for _, removing := range []string{"upgrade", "uninstall"} {
		t.Run(removing, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.apply(t, wide(t, "web", 1))
			b.apply(t, wide(t, "web", 5))
			b.relabel(t, "web", 2, "failed")
			b.relabel(t, "web", 1, "deployed")
			b.annotate(t, "web-1", `null`)
			b.annotate(t, "web-2", `{"helm.sh/resource-policy":"keep"}`)
			b.annotate(t, "web-3", `{"meta.helm.sh/release-name":"other"}`)
			b.refused(t, "web", "web-a")

			want := []string{"web-1", "web-2", "web-3"}
			if removing == "upgrade" {
				b.apply(t, wide(t, "web", 1))
				want = []string{"web-0", "web-1", "web-2", "web-3"}
			} else if _, err := b.Uninstall(t.Context(), "web"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, b.left(t)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUpgradeDoesNotFailIfTheCreatedObjectsDoNotFitIntoARecord upgrades a release after a failed upgrade. The first
// update of the record of the deployed revision fails, as if the record with the created objects were too large.
func TestUpgradeDoesNotFailIfTheCreatedObjectsDoNotFitIntoARecord(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := wide(t, "web", 1)
	b.apply(t, r)
	b.refused(t, "web", "web-a")
	b.Client = b.client(t, failingOnce(http.MethodPut, "/secrets/sh.helm.release.v1.web.v1", http.StatusUnprocessableEntity,
		"data: Too long: may not be more than 1048576 bytes"))
	m, _ := b.apply(t, r)
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 3, Checksum: m.Checksum})
	if diff := cmp.Diff([]string{"web-0", "web-a"}, b.left(t)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestUninstallDeletesTheObjectsOfAllFailedUpgrades(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, wide(t, "web", 1))
	b.refused(t, "web", "web-a")
	b.refused(t, "web", "web-b")
	if diff := cmp.Diff([]string{"web-0", "web-a", "web-b"}, b.left(t)); diff != "" {
		t.Fatalf("objects before the uninstall (-want +got):\n%s", diff)
	}
	if _, err := b.Uninstall(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), b.left(t)); diff != "" {
		t.Errorf("objects left (-want +got):\n%s", diff)
	}
}

// refused upgrades a release to a chart that has a ConfigMap and a Service, and checks that the API server rejects the
// Service.
func (b fixture) refused(t *testing.T, name, configMapName string) {
	t.Helper()
	r := module(t, name, files{
		"Chart.yaml": chartYAML, "templates/a.yaml": configMap(configMapName),
		"templates/bad.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: -1}]}\n",
	})
	_, err := b.Upgrade(t.Context(), r, b.render(t, r))
	wantError(t, err, fmt.Sprintf("upgrade release %q", name), "spec.ports[0].port")
}

// annotate merges annotations, which are JSON, into those of a ConfigMap. The value null removes all annotations.
func (b fixture) annotate(t *testing.T, name, annotations string) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":` + annotations + `}}`)
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// left returns the sorted names of the ConfigMaps with the label of the operator.
func (b fixture) left(t *testing.T) []string {
	t.Helper()
	list, err := b.kube.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "heritage=addon-operator"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range list.Items {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return names
}
