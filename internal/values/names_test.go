package values_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"addon-operator/internal/values"
)

func TestNamesThatSurviveTheRoundTripAreAccepted(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"module1":             "module1",
		"mod2-foo":            "mod2Foo",
		"l2-load-balancer":    "l2LoadBalancer",
		"my-v2":               "myV2",
		"2-module":            "2Module",
		"nginx-ingress":       "nginxIngress",
		"very-simple-module":  "verySimpleModule",
		"a":                   "a",
		"a-bc":                "aBc",
		"a-b-cd":              "aBCd",
		"12":                  "12",
		"node-maintenance":    "nodeMaintenance",
		"enabled":             "enabled",
		"prometheus-operator": "prometheusOperator",
	} {
		if got := values.Camel(name); got != key {
			t.Errorf("Camel(%q) = %q, want %q", name, got, key)
		}
		if got := values.Kebab(key); got != name {
			t.Errorf("Kebab(%q) = %q, want %q", key, got, name)
		}
		if err := values.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
}

func TestNamesThatCannotBeUsedAreRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, hint string }{
		{"module-1", `rename it, to "module1"`},
		{"mod-2foo", `rename it, to "mod2foo"`},
		{"a-b-c", `rename it, to "a-bc"`},
		{"foo-1-bar", `rename it, to "foo1-bar"`},
		{"my_module", `rename it, to "my-module"`},
		{"foo.bar", `rename it, to "foo-bar"`},
		{"MyModule", `rename it, to "my-module"`},
		{"foo--bar", `rename it, to "foo-bar"`},
		{"-foo", `rename it, to "foo"`},
		{"foo-", `rename it, to "foo"`},
		{"foo bar", `rename it, to "foo-bar"`},
		{"lost+found", "use lower-case letters"},
		{"модуль", "use lower-case letters"},
		{"---", "use lower-case letters"},
		{"", "use lower-case letters"},
		{"global", "would be the global ones"},
		{"foo-enabled", `enables or disables module "foo"`},
	} {
		err := values.CheckName(c.name)
		if err == nil || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("CheckName(%q) = %v, want an error with %s", c.name, err, c.hint)
		}
	}
}

func TestKeyOfAFlag(t *testing.T) {
	t.Parallel()
	if got := values.Flag(values.Camel("nginx-ingress")); got != "nginxIngressEnabled" {
		t.Errorf("got %q", got)
	}
}

func TestSuggestedNamesAreAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9A-Z._-]{0,12}`).Draw(t, "name")
		likely := values.Kebab(values.Camel(name))
		if likely == "" || likely == values.Global || strings.HasSuffix(likely, "-enabled") {
			return
		}
		if err := values.CheckName(likely); err != nil {
			t.Fatalf("%q leads to %q, which is refused: %v", name, likely, err)
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "module1", "module-1", "l2-load-balancer", "aBC", "FOOBar", "my_module", "ÄÖ-ü", "ǆ-ǆ", "\xff-\xff", "global", "fooEnabled"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := values.Camel(name)
		kebab := values.Kebab(name)
		if strings.ContainsAny(key, "-_. ") {
			t.Errorf("Camel(%q) = %q", name, key)
		}
		if strings.ContainsAny(kebab, "_. ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("Kebab(%q) = %q", name, kebab)
		}
		err := values.CheckName(name)
		if err == nil && (values.Kebab(key) != name || key == values.Global) {
			t.Errorf("CheckName(%q) accepted a name that reads back as %q", name, values.Kebab(key))
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is not one line: %q", err)
		}
	})
}
