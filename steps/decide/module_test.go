package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
)

func TestEnabledModulesThatCannotBeSeenStayEnabled(t *testing.T) {
	set := module.Set{Modules: []module.Module{{Name: "a"}, {Name: "c"}, {Name: "d"}}}
	got := withUnseen([]string{"a", "unseen", "c"}, []string{"c", "d"}, set)
	if diff := cmp.Diff([]string{"unseen", "c", "d"}, got); diff != "" {
		t.Error(diff)
	}
}
