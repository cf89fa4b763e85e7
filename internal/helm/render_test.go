package helm_test

import (
	"os"
	"path/filepath"
	"testing"

	"addon-operator/internal/helm"
)

// TestManifestIsReusableOnlyForTheSameChartAndValuesAndKinds is not parallel: if another test creates or deletes a CRD,
// no earlier manifest is reusable.
func TestManifestIsReusableOnlyForTheSameChartAndValuesAndKinds(t *testing.T) {
	b := start(t)
	r := with(small(t, "same"), "size", 1)
	r.EnabledModules = []string{"same"}
	m := b.render(t, r)
	reusable := func(r helm.Release, m helm.Manifest) bool {
		t.Helper()
		yes, err := b.Reusable(t.Context(), r, m)
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	if !reusable(r, m) {
		t.Error("the manifest of the same release is not reusable")
	}
	maintained, listing, renamed := r, r, r
	maintained.Maintained, listing.EnabledModules, renamed.Name = true, []string{"same", "other"}, "other"
	for what, other := range map[string]helm.Release{
		"other values": with(r, "size", 2), "maintenance": maintained, "other enabled modules": listing, "another name": renamed,
	} {
		if reusable(other, m) {
			t.Errorf("the manifest is reused for %s", what)
		}
	}
	if reusable(r, helm.Manifest{Checksum: m.Checksum}) {
		t.Error("a manifest that was not rendered is reused")
	}

	file := filepath.Join(r.ChartDir, "templates", "more.yaml")
	if err := os.WriteFile(file, []byte(configMap("more")), 0o600); err != nil {
		t.Fatal(err)
	}
	if reusable(r, m) {
		t.Error("the manifest is reused after a file was added to the chart")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if !reusable(r, m) {
		t.Error("the manifest is not reusable after the added file was removed")
	}
	b.define(t)
	if reusable(r, m) {
		t.Error("the manifest is reused after a CRD was added")
	}
	for want, r := range map[bool]helm.Release{true: r, false: with(r, "size", 2)} {
		if got, err := m.RenderedFrom(r); got != want || err != nil {
			t.Errorf("rendered from values %v: %t (error %v), want %t", r.Values, got, err, want)
		}
	}
}
