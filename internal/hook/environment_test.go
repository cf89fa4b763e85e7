package hook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToolsComeLastOnPath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   []string
		tools string
		want  string
	}{
		"behind what is there": {[]string{"PATH=/usr/bin:/bin"}, "/opt/tools", "PATH=/usr/bin:/bin:/opt/tools"},
		"without tools":        {[]string{"PATH=/usr/bin:/bin"}, "", "PATH=/usr/bin:/bin"},
		"without a path":       {nil, "/opt/tools", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/tools"},
		"with an empty path":   {[]string{"PATH="}, "/opt/tools", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/tools"},
	} {
		got, err := baseEnvironment(c.env, c.tools)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOperatorsOwnRunVariablesAreNotInherited(t *testing.T) {
	t.Parallel()
	got, err := baseEnvironment([]string{"A=1", "VALUES_PATH=/x", "ADDON_OPERATOR_ATTEMPT=9", "ADDON_OPERATOR_NAMESPACE=n", "PATH=/bin", "VALUES_PATH_X=2"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=1", "ADDON_OPERATOR_NAMESPACE=n", "VALUES_PATH_X=2", "PATH=/bin"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestAddedVariablesReplaceThoseOfTheSameName(t *testing.T) {
	t.Parallel()
	base := []string{"A=1", "PWD=/old", "B=2=3"}
	got := environment(base, []string{"PWD=/new", "C=4"})
	if diff := cmp.Diff([]string{"A=1", "B=2=3", "PWD=/new", "C=4"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A=1", "PWD=/old", "B=2=3"}, base); diff != "" {
		t.Errorf("the base was changed (-want +got):\n%s", diff)
	}
}
