package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/store"
)

func TestEnabledModulesThatCannotBeSeenStayEnabled(t *testing.T) {
	t.Parallel()
	seen := []module.Module{{Name: "a"}, {Name: "c"}, {Name: "d"}}
	for name, c := range map[string]struct {
		empty []string // empty directories of modules
		kept  []string
		want  []string
	}{
		"a directory of modules is empty": {[]string{"/empty"}, nil, []string{"kept", "gone", "d", "c"}},
		"one module is kept":              {nil, []string{"kept", "other"}, []string{"kept", "d", "c"}},
		"no module is kept":               {nil, nil, []string{"c", "d"}},
	} {
		d := Decisions{Enabled: []string{"c", "d"}}
		d.KeepUnseen(&Known{
			Set: module.Set{Empty: c.empty, Modules: seen}, Startup: store.Startup{Enabled: []string{"a", "kept", "gone", "d"}}, Kept: c.kept,
		})
		if diff := cmp.Diff(c.want, d.Enabled); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
