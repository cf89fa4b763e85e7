package catalog_test

import (
	"slices"
	"testing"

	"addon-operator/internal/catalog"
)

// TestVersionsAreInTheOrderOfSemanticVersioning checks that versions are sorted as semantic versions and not as texts,
// and that texts that are not versions come last.
func TestVersionsAreInTheOrderOfSemanticVersioning(t *testing.T) {
	t.Parallel()
	want := []string{"0.9.0", "1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0-rc.1", "v1.0.0", "1.2.0", "1.10.0", "2", "latest", "newest"}
	for shift := range want {
		got := append(slices.Clone(want[shift:]), want[:shift]...)
		slices.Reverse(got)
		slices.SortFunc(got, catalog.CompareVersions)
		if !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
	}
	for _, equal := range [][2]string{{"1.0.0", "v1.0.0"}, {"1.2", "1.2.0"}, {"1.0.0+a", "1.0.0+b"}, {"latest", "latest"}} {
		if order := catalog.CompareVersions(equal[0], equal[1]); order != 0 {
			t.Errorf("%q compared with %q is %d, want 0", equal[0], equal[1], order)
		}
	}
}
