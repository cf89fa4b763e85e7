package charts

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"addon-operator/internal/helm"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
)

// chartsOf returns the charts of a directory with the module web, which has a chart, and the module hooks, which has
// none. There is no cluster, so these charts cannot be rendered.
func chartsOf(t *testing.T) (c *Charts, state *scan.State, mounted string) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	scantest.Write(t, mounted, "values.yaml", "global: {zone: a}\n")
	scantest.Write(t, mounted, "010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}\nwebEnabled: true\n")
	scantest.Program(t, mounted, "020-hooks/hooks/x.sh", scantest.GoodHook)
	state = scan.New(o, nil)
	scantest.Scan(t, state)
	return New(state.DB, state.Log, nil, state.Modules, state.Values, nil), state, mounted
}

func TestTheReleaseOfAModuleHasTheCurrentValues(t *testing.T) {
	t.Parallel()
	c, state, mounted := chartsOf(t)
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		return errors.Join(
			state.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "size: 2", "other", "x: 1"), "1"),
			store.Save(tx, store.StartupKey(), store.Startup{Enabled: []string{"hooks", "web"}}),
		)
	})
	r, err := c.Release("web")
	if err != nil {
		t.Fatal(err)
	}
	want := &helm.Release{
		Name: "web", ChartDir: mounted + "/010-web", EnabledModules: []string{"hooks", "web"},
		Values: map[string]any{"global": map[string]any{"zone": "a"}, "web": map[string]any{"size": 2.0}},
	}
	if diff := cmp.Diff(want, r, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	config := scantest.Config(t, "web", "size: 3", "webMaintenance", "NoResourceReconciliation")
	under, err := c.releaseUnder("web", &config)
	if err != nil {
		t.Fatal(err)
	}
	if got := under.Values["web"]; !cmp.Equal(got, map[string]any{"size": 3.0}) {
		t.Errorf("with another ConfigMap, the section is %v", got)
	}
	if !under.Maintained || r.Maintained {
		t.Errorf("the release is in maintenance: %t, with another ConfigMap: %t", r.Maintained, under.Maintained)
	}
	if again, err := c.Release("web"); err != nil || !cmp.Equal(again.Values["web"], map[string]any{"size": 2.0}) {
		t.Errorf("the other ConfigMap stays in use: %v, %v", again, err)
	}
}

func TestAModuleWithoutAChartHasNoRelease(t *testing.T) {
	t.Parallel()
	c, _, mounted := chartsOf(t)
	if r, err := c.Release("hooks"); r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := c.Rendered(t.Context(), "hooks", false); err == nil || err.Error() != "the module has no chart" {
		t.Errorf("got %v", err)
	}
	// A chart that was added after the last scan is found.
	scantest.Write(t, mounted, "020-hooks/Chart.yaml", "apiVersion: v2\nname: hooks\nversion: 1.0.0\n")
	if r, err := c.Release("hooks"); err != nil || r == nil || r.ChartDir != mounted+"/020-hooks" {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestAModuleThatCannotBeReadHasNoRelease(t *testing.T) {
	t.Parallel()
	c, state, mounted := chartsOf(t)
	if _, err := c.Release("gone"); err == nil || err.Error() != "module gone is not on disk any more" {
		t.Errorf("got %v", err)
	}
	scantest.Write(t, mounted, "010-web/values.yaml", "web: [")
	scantest.Scan(t, state)
	broken, _ := state.Modules.Disk().Find("web")
	if _, err := c.Release("web"); err == nil || !errors.Is(err, broken.Broken) {
		t.Errorf("got %v, want %v", err, broken.Broken)
	}
	if _, err := c.Rendered(t.Context(), "web", true); !errors.Is(err, broken.Broken) {
		t.Errorf("got %v, want %v", err, broken.Broken)
	}
}

func TestValuesThatTheSchemaOfTheChartRejectsAreNotRendered(t *testing.T) {
	t.Parallel()
	c, state, mounted := chartsOf(t)
	scantest.Write(t, mounted, "010-web/openapi/values.yaml", "properties: {size: {type: string}}")
	scantest.Scan(t, state)
	_, err := c.Release("web")
	if err == nil || !strings.Contains(err.Error(), "web.size") {
		t.Errorf("got %v", err)
	}
}

func TestARenderingIsUsedOnceAndOnlyTheLastOne(t *testing.T) {
	t.Parallel()
	var r renderings
	if r.remove("web") != nil {
		t.Error("there is a rendering before the first one")
	}
	first := r.put("web")
	second := r.put("web")
	other := r.put("other")
	first.end(helm.Manifest{Checksum: "1"})
	second.end(helm.Manifest{Checksum: "2"})
	if got := r.remove("web"); got != second || got.manifest.Checksum != "2" || !got.ok {
		t.Errorf("got %+v", got)
	}
	if got := r.remove("web"); got != nil {
		t.Errorf("a rendering is returned twice: %+v", got)
	}
	if got := r.remove("other"); got != other || got.ok {
		t.Errorf("a rendering that has not ended is %+v", got)
	}
}

func TestASavedManifestHasNoText(t *testing.T) {
	t.Parallel()
	c, _, _ := chartsOf(t)
	c.SaveRendering("web", helm.Manifest{Text: "kind: Secret", Checksum: "1", Objects: []helm.Object{{Kind: "Secret", Name: "x"}}})
	saved := c.renderings.remove("web")
	if saved == nil || !saved.ok || saved.manifest.Text != "" || saved.manifest.Checksum != "1" || len(saved.manifest.Objects) != 1 {
		t.Errorf("got %+v", saved)
	}
	select {
	case <-saved.ended:
	default:
		t.Error("the rendering has not ended")
	}
}

func TestAReusableManifestIsNotRenderedAgain(t *testing.T) {
	t.Parallel()
	c, _, _ := chartsOf(t) // the charts have no Helm client, so a rendering would panic
	c.SaveRendering("web", helm.Manifest{Checksum: "1"})
	asked := ""
	got, err := c.renderedIf(t.Context(), helm.Release{Name: "web"}, func(m helm.Manifest) (bool, error) {
		asked = m.Checksum
		return true, nil
	})
	if err != nil || got.Checksum != "1" || asked != "1" {
		t.Errorf("got %+v, %v; asked for the manifest %q", got, err, asked)
	}
}

func TestTheWaitForARenderingEndsWithTheStep(t *testing.T) {
	t.Parallel()
	c, _, _ := chartsOf(t)
	c.renderings.put("web")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.renderedIf(ctx, helm.Release{Name: "web"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A module that has no chart, or that cannot be read, has no manifest to use later.
func TestNothingIsRenderedAheadForAModuleWithoutAChart(t *testing.T) {
	t.Parallel()
	c, _, _ := chartsOf(t)
	for _, module := range []string{"hooks", "gone"} {
		c.RenderAhead(t.Context(), module)
		ahead := c.renderings.remove(module)
		<-ahead.ended
		if ahead.ok {
			t.Errorf("%s has the manifest %+v", module, ahead.manifest)
		}
	}
}

// These charts have no observer, so a rendering panics.
func TestAPanicOfARenderingAheadIsNoFailure(t *testing.T) {
	t.Parallel()
	c, _, _ := chartsOf(t)
	c.RenderAhead(t.Context(), "web")
	ahead := c.renderings.remove("web")
	<-ahead.ended
	if ahead.ok {
		t.Errorf("got the manifest %+v", ahead.manifest)
	}
}
