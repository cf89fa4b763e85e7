package helm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/helm"
)

func TestReleaseIsInstalledThenLeftAloneThenUpgraded(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "web")
	b.state(t, "web", helm.State{Status: helm.Absent})

	m := b.render(t, r)
	missing, err := b.Missing(t.Context(), m.Objects)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Objects, missing); diff != "" {
		t.Errorf("before the install, not all objects are missing (-want +got):\n%s", diff)
	}

	if _, revision := b.apply(t, r); revision != 1 {
		t.Errorf("the install is revision %d, want 1", revision)
	}
	deployed := helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum}
	b.state(t, "web", deployed)
	if again := b.render(t, r); deployed.Outdated(again.Checksum) {
		t.Errorf("nothing changed, but the release is outdated: checksums %s and %s", m.Checksum, again.Checksum)
	}
	if missing, err := b.Missing(t.Context(), m.Objects); err != nil || len(missing) > 0 {
		t.Errorf("after the install %v are missing (error %v)", missing, err)
	}

	changed := with(r, "size", "big")
	m = b.render(t, changed)
	if !deployed.Outdated(m.Checksum) {
		t.Error("a value changed, but the release is not outdated")
	}
	changes, err := b.Changes("web", 1, m)
	if err != nil || helm.ChangesText(changes) != "ConfigMap web (data.size)" {
		t.Errorf("changes from revision 1 are %v (error %v)", changes, err)
	}
	if again, err := b.Changes("web", 1, b.render(t, r)); err != nil || len(again) > 0 {
		t.Errorf("nothing changed, but %v did (error %v)", again, err)
	}
	if _, revision := b.apply(t, changed); revision != 2 {
		t.Errorf("the upgrade is revision %d, want 2", revision)
	}
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 2, Checksum: m.Checksum})
	if got, _ := b.configMap(t, "web"); got.Data["size"] != "big" {
		t.Errorf("the ConfigMap holds %v, want the new value", got.Data)
	}
}

func TestUnusedValueLeavesChecksumAlone(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "web")
	plain := b.render(t, r)
	listed := b.render(t, with(r, "global", map[string]any{"enabledModules": []any{"web", "other"}}))
	if plain.Checksum != listed.Checksum {
		t.Error("enabledModules changed the checksum of a chart that does not use it")
	}
}

func TestEveryObjectCarriesLabels(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *helm.Options) { o.ExtraLabels = map[string]string{"team": "1"} })
	if want := map[string]string{"heritage": "addon-operator", "team": "1"}; !cmp.Equal(b.Labels(), want) {
		t.Errorf("labels are %v, want %v", b.Labels(), want)
	}
	m, _ := b.apply(t, module(t, "mix", files{
		"Chart.yaml":          chartYAML,
		"templates/one.yaml":  configMap("one"),
		"templates/list.yaml": "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(configMap("two")), "\n", "\n  "),
	}))
	if len(m.Objects) != 2 {
		t.Errorf("the manifest has objects %v, want two", m.Objects)
	}
	for _, name := range []string{"one", "two"} {
		got, _ := b.configMap(t, name)
		for label, value := range map[string]string{"heritage": "addon-operator", "team": "1", "app.kubernetes.io/managed-by": "Helm"} {
			if got.Labels[label] != value {
				t.Errorf("ConfigMap %s has labels %v, want %s=%s", name, got.Labels, label, value)
			}
		}
		if len(got.ManagedFields) == 0 || got.ManagedFields[0].Manager != "addon-operator" {
			t.Errorf("ConfigMap %s is managed by %v", name, got.ManagedFields)
		}
	}
}

func TestTemplatesAloneAreAChart(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "bare", files{
		"values.yaml":             "size: from-values\n",
		"templates/settings.yaml": strings.ReplaceAll(configMap("bare"), "data:", "data:\n  chart: {{ .Chart.Name }}-{{ .Chart.Version }}"),
		"hooks/startup":           "{{ not a template",
		"crds/crd.yaml":           "kind: Nonsense",
	})
	b.apply(t, r)
	got, _ := b.configMap(t, "bare")
	if got.Data["size"] != "from-values" || got.Data["chart"] != "bare-0.2.0" {
		t.Errorf("the ConfigMap holds %v", got.Data)
	}
}

func TestReleaseIsNamedAfterModuleNotChart(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, module(t, "node-log", files{
		"Chart.yaml":       chartYAML,
		"templates/a.yaml": configMap("{{ .Release.Name }}"),
	}))
	if _, ok := b.configMap(t, "node-log"); !ok {
		t.Error(".Release.Name is not the module's name")
	}
	if got := b.records(t, "node-log"); !slices.Equal(got, []string{"sh.helm.release.v1.node-log.v1"}) {
		t.Errorf("records are %v", got)
	}
}

func TestCRDsOfTheChartAreNotApplied(t *testing.T) {
	t.Parallel()
	b := start(t)
	m, _ := b.apply(t, module(t, "crds", files{
		"Chart.yaml":         chartYAML,
		"templates/one.yaml": configMap("one"),
		"crds/broken.yaml":   "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: of-no-group\n",
	}))
	if strings.Contains(m.Text, "CustomResourceDefinition") {
		t.Errorf("the manifest contains the CRD:\n%s", m.Text)
	}
}

func TestObjectsAreListedWhereTheyAre(t *testing.T) {
	t.Parallel()
	b := start(t)
	role := "r-" + b.namespace
	m := b.render(t, module(t, "objects", files{
		"Chart.yaml":            chartYAML,
		"templates/own.yaml":    configMap("own"),
		"templates/other.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: kube-public}\n",
		"templates/global.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + role + ", namespace: ignored}\n",
		"templates/hook.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
		"templates/job.yaml":    job("brief", "  ttlSecondsAfterFinished: 10\n"),
		"templates/job2.yaml":   job("kept", ""),
	}))
	want := []helm.Object{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-public", Name: "other"},
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: "own"},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role},
		{APIVersion: "batch/v1", Kind: "Job", Namespace: b.namespace, Name: "kept"},
	}
	if diff := cmp.Diff(want, m.Objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func job(name, spec string) string {
	return "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\nspec:\n" + spec +
		"  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: main, image: example.com/main}]\n"
}

func TestClusterScopedObjectsAreInstalledMissedAndHealed(t *testing.T) {
	t.Parallel()
	b := start(t)
	role := "r-" + b.namespace
	r := module(t, "roles", files{
		"Chart.yaml":          chartYAML,
		"templates/role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + role + "\n",
	})
	m, _ := b.apply(t, r)
	roles := b.kube.RbacV1().ClusterRoles()
	if err := roles.Delete(t.Context(), role, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	missing, err := b.Missing(t.Context(), m.Objects)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Objects, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	b.apply(t, r)
	if _, err := roles.Get(t.Context(), role, metav1.GetOptions{}); err != nil {
		t.Errorf("the upgrade did not bring the object back: %v", err)
	}
	if _, err := b.Uninstall(t.Context(), "roles"); err != nil {
		t.Fatal(err)
	}
}

func TestExistingObjectsAreTakenOver(t *testing.T) {
	t.Parallel()
	b := start(t)
	first := module(t, "first", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("shared")})
	second := with(module(t, "second", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("shared")}), "size", "second")
	b.apply(t, first)
	b.apply(t, second)
	if got, _ := b.configMap(t, "shared"); got.Data["size"] != "second" || got.Annotations["meta.helm.sh/release-name"] != "second" {
		t.Errorf("the object was not taken over: %v %v", got.Annotations, got.Data)
	}
}

func TestReleasesAreUpgradedSideBySide(t *testing.T) {
	t.Parallel()
	b := start(t)
	var group errgroup.Group
	for _, name := range []string{"a", "b", "c", "d"} {
		r := small(t, name)
		group.Go(func() error {
			m, err := b.Render(t.Context(), r)
			if err != nil {
				return err
			}
			_, err = b.Upgrade(t.Context(), r, m)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := b.List(t.Context())
	if err != nil || len(got) != 4 {
		t.Errorf("the namespace holds %v (error %v), want four releases", got, err)
	}
}

func TestHistoryIsKeptToItsLimit(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "often", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("often")})
	for _, size := range []string{"1", "2", "3", "4", "5"} {
		b.apply(t, with(r, "size", size))
	}
	if got := b.records(t, "often"); len(got) != 3 {
		t.Errorf("5 upgrades left %d revisions, want the 3 that HistoryMax allows: %v", len(got), got)
	}
}

func TestListNamesEveryRelease(t *testing.T) {
	t.Parallel()
	b := start(t)
	if got, err := b.List(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("an empty namespace lists %v (error %v)", got, err)
	}
	a, _ := b.apply(t, module(t, "a", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a")}))
	r := module(t, "b", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("b")})
	b.apply(t, r)
	changed, _ := b.apply(t, with(r, "size", "2"))
	b.relabel(t, "b", 2, "failed")

	got, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []helm.Summary{
		{Name: "a", State: helm.State{Status: helm.Deployed, Revision: 1, Checksum: a.Checksum}},
		{Name: "b", State: helm.State{Status: helm.Failed, Revision: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s\nchecksum of b was %s", diff, changed.Checksum)
	}
}

func TestReleasesCanBeKeptInConfigMaps(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *helm.Options) { o.Driver = "configmap" })
	r := module(t, "maps", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a")})
	m, _ := b.apply(t, r)
	b.state(t, "maps", helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum})
	if _, ok := b.configMap(t, "sh.helm.release.v1.maps.v1"); !ok {
		t.Error("the revision is not in a ConfigMap")
	}
	if _, err := b.Uninstall(t.Context(), "maps"); err != nil {
		t.Fatal(err)
	}
	b.state(t, "maps", helm.State{Status: helm.Absent})
}

func TestUnknownDriverIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	_, err := helm.New(helm.Options{Config: b.config, Namespace: b.namespace, Driver: "sql"})
	if err == nil || !strings.Contains(err.Error(), `HELM_DRIVER "sql" is not supported: set secret or configmap`) {
		t.Errorf("error is %v", err)
	}
}

func TestAReleaseTellsWhetherItWasMadeFromAnAddon(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "redis")
	for i, addon := range []bool{true, false, true} {
		r = with(r, "n", i)
		r.Addon = addon
		b.apply(t, r)
		state, err := b.Find(t.Context(), "redis")
		if err != nil || state.Addon != addon {
			t.Errorf("revision %d: addon is %t, %v; want %t", state.Revision, state.Addon, err, addon)
		}
	}
}
