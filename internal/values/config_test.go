package values_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/values"
)

// config parses the data of a ConfigMap. If the data is invalid, it fails the test.
func config(t testing.TB, data map[string]string) values.Config {
	t.Helper()
	c, err := values.ParseConfig(data)
	if err != nil {
		t.Fatalf("test data %v: %v", data, err)
	}
	return c
}

func TestParseConfigReadsSectionsAndFlags(t *testing.T) {
	t.Parallel()
	got := config(t, map[string]string{
		"global":                "param1: 200\nbig: 9007199254740993\n",
		"someModule":            "param1: \"Long string\"\nparam2: \"FOO\"\n",
		"listModule":            "- a\n- b: 1\n",
		"emptyModule":           "{}",
		"l2LoadBalancer":        "{mode: arp}",
		"2Module":               "a: 1",
		"someModuleEnabled":     "true",
		"switchedOffEnabled":    "false",
		"nodeMaintenance":       "window: night",
		"someModuleMaintenance": "NoResourceReconciliation",
		"lowerMaintenance":      "noresourcereconciliation",
		"otherMaintenance":      "",
		"anotherMaintenance":    "Managed",
	})
	want := values.Config{
		Sections: doc(t, `{
			"global":{"param1":200,"big":9007199254740993},
			"someModule":{"param1":"Long string","param2":"FOO"},
			"listModule":["a",{"b":1}],
			"emptyModule":{},
			"l2LoadBalancer":{"mode":"arp"},
			"2Module":{"a":1},
			"nodeMaintenance":{"window":"night"}}`),
		Flags:      map[string]bool{"someModuleEnabled": true, "switchedOffEnabled": false},
		Maintained: map[string]bool{"someModule": true, "lower": true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// As in flant/addon-operator, words such as on and yes are texts in the section of a module, and booleans in global.
func TestWordsInTheSectionOfAModuleAreTexts(t *testing.T) {
	t.Parallel()
	const text = "mode: on\nzone: NO\nat: {x: 1, y: 2}\nlist: [yes, off, 'on']\nsure: [true, False]\n"
	got := config(t, map[string]string{"web": text, "global": text}).Sections
	want := doc(t, `{
		"web":{"mode":"on","zone":"NO","at":{"x":1,"y":2},"list":["yes","off","on"],"sure":[true,false]},
		"global":{"mode":true,"zone":false,"at":{"x":1,"true":2},"list":[true,false,"on"],"sure":[true,false]}}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigMapWithoutDataSaysNothing(t *testing.T) {
	t.Parallel()
	for _, data := range []map[string]string{nil, {}} {
		got := config(t, data)
		if len(got.Sections)+len(got.Flags)+len(got.Maintained) != 0 {
			t.Errorf("got %+v", got)
		}
	}
}

func TestGlobalMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# nothing yet\n", "{}", "null"} {
		section, mentioned := config(t, map[string]string{"global": text}).Section(values.Global)
		if diff := cmp.Diff(map[string]any{}, section); diff != "" || !mentioned {
			t.Errorf("global: %q: mentioned %v, section (-want +got):\n%s", text, mentioned, diff)
		}
	}
}

func TestInvalidConfigMapIsRefusedWholeAndEveryKeyIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, text, want string }{
		{"fooEnabled", "True", `ConfigMap key "fooEnabled": must be "true" or "false", in quotes, in lower case, without spaces or line breaks (got "True")`},
		{"fooEnabled", "yes", `must be "true" or "false"`},
		{"fooEnabled", "1", `must be "true" or "false"`},
		{"fooEnabled", "", `must be "true" or "false"`},
		{"fooEnabled", "true\n", "without spaces or line breaks"},
		{"fooEnabled", " false", "without spaces or line breaks"},
		{"fooEnabled", strings.Repeat("x", 1000), `(got "` + strings.Repeat("x", 40) + `")`},
		{"foo", "", `ConfigMap key "foo": is empty: remove the key, or write "{}"`},
		{"foo", "null", "is empty"},
		{"foo", "# later", "is empty"},
		{"anotherModule", "false", `is a boolean: values of a module must be a YAML map or list; the module is switched on and off under "anotherModuleEnabled"`},
		{"foo", "5", "is a number"},
		{"foo", "text", "is a string"},
		{"global", "text", "is a string: global values must be a YAML map"},
		{"global", "[]", "is a list: global values must be a YAML map"},
		{"foo", "a: 1\nb: [\n", `ConfigMap key "foo": line 2: not valid YAML`},
		{"foo", "a: 1\n\tb: 2\n", "not valid YAML"},
		{"foo", "a: b: c", "not valid YAML"},
		{"global", "a: .nan", ".nan and .inf are no JSON numbers"},
		{"foo", "a: .inf", ".nan and .inf are no JSON numbers"},
		{"foo", "? [a, b]\n: 1", "a key of a map must be a plain word"},
		{"foo", "a: &a " + strings.Repeat("x", 1<<19) + "\nb:\n" + strings.Repeat("- *a\n", 40), "expands to more than the limit of 16 MiB"},
		{"fooBar_baz", "{}", `is no module's name in camelCase: write "fooBarBaz" instead`},
		{"nginx-ingress", "a: 1", `write "nginxIngress" instead`},
		{"nginx-ingressEnabled", "true", `write "nginxIngressEnabled" instead`},
		{"NginxIngress", "a: 1", `write "nginxIngress" instead`},
		{"foo-barMaintenance", "", `write "fooBarMaintenance" instead`},
		{"foo.yaml", "a: 1", `write "fooYaml" instead`},
		{"Global", "a: 1", `write "global" instead`},
		{"aBC", "{}", `write "aBc" instead`},
		{"Enabled", "true", "in camelCase"},
		{"_", "{}", "is no module's name in camelCase: remove it"},
		{"", "{}", "remove it"},
		{"fooMaintenance", "[", "not valid YAML"},
		{"fooMaintenance", "yes please", `write "NoResourceReconciliation", or nothing`},
		{"fooMaintenance", "true", `write "NoResourceReconciliation", or nothing`},
	} {
		got, err := values.ParseConfig(map[string]string{c.key: c.text, "good": "a: 1", "goodEnabled": "true"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q: error %v, want one with %q", c.key, c.text, err, c.want)
		}
		if diff := cmp.Diff(values.Config{}, got); diff != "" {
			t.Errorf("%s: %q: something of the invalid ConfigMap is left:\n%s", c.key, c.text, diff)
		}
	}

	_, err := values.ParseConfig(map[string]string{"aEnabled": "x", "b": "5", "good": "{}", "c_d": "{}"})
	want := []string{
		`ConfigMap key "aEnabled": must be "true" or "false", in quotes, in lower case, without spaces or line breaks (got "x")`,
		`ConfigMap key "b": is a number: values of a module must be a YAML map or list; the module is switched on and off under "bEnabled"`,
		`ConfigMap key "c_d": is no module's name in camelCase: write "cD" instead`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got:\n%v\nwant:\n%s", err, strings.Join(want, "\n"))
	}
}

func TestConfigErrorsDoNotQuoteSettings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hunter2",
		"password: !!int hunter2",
		"password: *hunter2",
		"? [hunter2]\n: hunter2",
		"? hunter2\n: {? [hunter2] : hunter2}",
		"password: \"hunter2",
		"password: hunter2: hunter2",
		"password: !!binary hunter2",
		"a: &hunter2 [*hunter2]",
		"password: %hunter2",
		"password: @hunter2",
		"password: \"\\hunter2\"",
	} {
		if _, err := values.ParseConfig(map[string]string{"foo": text}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want an error that does not quote it", text, err)
		}
	}
}

func TestSectionTellsAbsentFromEmpty(t *testing.T) {
	t.Parallel()
	c := config(t, map[string]string{"foo": "a: 1", "barEnabled": "false", "baz": "{}", "quxMaintenance": ""})
	for _, w := range []struct {
		key       string
		section   any
		mentioned bool
	}{
		{"foo", map[string]any{"a": int64(1)}, true},
		{"bar", map[string]any{}, true},
		{"baz", map[string]any{}, true},
		{"qux", nil, false},
		{"other", nil, false},
		{values.Global, nil, false},
	} {
		section, mentioned := c.Section(w.key)
		if diff := cmp.Diff(w.section, section); diff != "" || mentioned != w.mentioned {
			t.Errorf("%s: mentioned %v, want %v; section (-want +got):\n%s", w.key, mentioned, w.mentioned, diff)
		}
	}
}

func TestDiffNamesWhatChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		before, now map[string]string
		want        values.Difference
	}{
		{"nothing", map[string]string{"foo": "a: 1", "fooEnabled": "true"}, map[string]string{"foo": "{a: 1.0} # the same", "fooEnabled": "true"}, values.Difference{}},
		{"global values", map[string]string{"global": "a: 1"}, map[string]string{"global": "a: 2"}, values.Difference{Global: true}},
		{"global values gone", map[string]string{"global": "a: 1"}, nil, values.Difference{Global: true}},
		{"an empty global section appears", nil, map[string]string{"global": ""}, values.Difference{}},
		{"sections", map[string]string{"a": "x: 1", "b": "x: 1", "c": "x: 1"}, map[string]string{"c": "x: 2", "b": "x: 1", "d": "[1]"}, values.Difference{Modules: []string{"a", "c", "d"}}},
		{"only a flag is toggled", map[string]string{"foo": "a: 1", "fooEnabled": "true"}, map[string]string{"foo": "a: 1", "fooEnabled": "false"}, values.Difference{Flags: []string{"fooEnabled"}}},
		{"flags come and go", map[string]string{"bEnabled": "true"}, map[string]string{"aEnabled": "false"}, values.Difference{Flags: []string{"aEnabled", "bEnabled"}}},
		{"maintenance begins and ends", map[string]string{"a": "x: 1", "aMaintenance": "", "bMaintenance": "NoResourceReconciliation", "cMaintenance": "NoResourceReconciliation"}, map[string]string{"a": "x: 2", "aMaintenance": "NoResourceReconciliation", "cMaintenance": "noresourcereconciliation"}, values.Difference{Modules: []string{"a", "b"}}},
		{"everything is deleted", map[string]string{"global": "a: 1", "foo": "a: 1", "fooEnabled": "true"}, nil, values.Difference{Global: true, Flags: []string{"fooEnabled"}, Modules: []string{"foo"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := config(t, c.before).Diff(config(t, c.now))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormattedSectionIsReadBackTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		section := any(map[string]any(objects(3).Draw(t, "section")))
		text, err := values.FormatSection(section)
		if err != nil {
			t.Fatal(err)
		}
		c, err := values.ParseConfig(map[string]string{"foo": text})
		if err != nil {
			t.Fatalf("%s written as\n%s: %v", canonical(t, section), text, err)
		}
		if got, want := canonical(t, c.Sections["foo"]), canonical(t, section); got != want {
			t.Fatalf("%s written as\n%s is read as %s", want, text, got)
		}
	})
}

func TestFormatSection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		section any
		want    string
	}{
		{map[string]any{"p": int64(1)}, "p: 1\n"},
		{map[string]any{"id": int64(9007199254740993), "b": "true", "a": []any{"x", nil}}, "a:\n- x\n- null\nb: \"true\"\nid: 9007199254740993\n"},
		{map[string]any{}, "{}\n"},
		{nil, "{}\n"},
		{[]any{int64(1)}, "- 1\n"},
	} {
		got, err := values.FormatSection(c.section)
		if err != nil || got != c.want {
			t.Errorf("%v: got %q, %v; want %q", c.section, got, err, c.want)
		}
	}
	if _, err := values.FormatSection(func() {}); err == nil {
		t.Error("a function was written as YAML")
	}
}

func TestStoredConfigIsReadBackTheSame(t *testing.T) {
	t.Parallel()
	before := config(t, map[string]string{"global": "n: 9007199254740993", "fooEnabled": "true", "fooMaintenance": "NoResourceReconciliation", "bar": "[1]"})
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var after values.Config
	if err := json.Unmarshal(text, &after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzParseConfig(f *testing.F) {
	for key, text := range map[string]string{
		"global": "", "foo": "a: 1\nb: [x, {y: z}]\n", "fooEnabled": "true", "fooBar_baz": "{}", "fooMaintenance": "NoResourceReconciliation",
		"2Module": "- 1\n- .5\n- 0x1f\n- 1_000\n- 12:30\n- 2020-01-02\n- ~\n", "x": "<<: {a: 1}\nb: &b 1\nc: *b\n", "y": "? [a]\n: 1\n",
		"z": "a: !!binary aGVsbG8=\n", "0": "0: !!binary 0000", "w": "\t", "v": "%YAML 1.1\n---\na: 1\n...\n", "u": "a: 1e999\n", "t": "\"\\ud800\": 1",
		"s": "\"\u007f\u0085\u2028\ufeff\": \"\\x00\"",
	} {
		f.Add(key, text)
	}
	f.Fuzz(func(t *testing.T, key, text string) {
		c, err := values.ParseConfig(map[string]string{key: text})
		if err != nil {
			return
		}
		if n := len(c.Sections) + len(c.Flags) + len(c.Maintained); n > 1 || n == 0 && !strings.HasSuffix(key, "Maintenance") {
			t.Fatalf("one key became %+v", c)
		}
		for name, section := range c.Sections {
			text, err := values.FormatSection(section)
			if err != nil {
				t.Fatal(err)
			}
			again, err := values.ParseConfig(map[string]string{name: text})
			if err != nil {
				t.Fatalf("written as\n%s: %v", text, err)
			}
			if got, want := canonical(t, again.Sections[name]), canonical(t, section); got != want {
				t.Fatalf("%s written as\n%s is read as %s", want, text, got)
			}
		}
	})
}

func TestTheDifferenceOfConfigsIsTheSameInBothDirections(t *testing.T) {
	t.Parallel()
	keys := rapid.SampledFrom([]string{"global", "web", "dbCache"})
	configs := rapid.Custom(func(t *rapid.T) values.Config {
		c := values.Config{Sections: values.Values{}}
		for key, section := range rapid.MapOfN(keys, objects(1), 0, 3).Draw(t, "sections") {
			c.Sections[key] = map[string]any(section)
		}
		c.Flags = rapid.MapOfN(rapid.SampledFrom([]string{"webEnabled", "dbCacheEnabled"}), rapid.Bool(), 0, 2).Draw(t, "flags")
		c.Maintained = rapid.MapOfN(rapid.SampledFrom([]string{"web", "dbCache"}), rapid.Just(true), 0, 2).Draw(t, "maintained")
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := configs.Draw(t, "a"), configs.Draw(t, "b")
		there, err1 := a.Diff(b)
		back, err2 := b.Diff(a)
		if diff := cmp.Diff(there, back); diff != "" || err1 != nil || err2 != nil {
			t.Fatalf("%v, %v\n%s", err1, err2, diff)
		}
		same, err := a.Diff(a)
		if diff := cmp.Diff(values.Difference{}, same); diff != "" || err != nil {
			t.Fatalf("from a config to itself: %v\n%s", err, diff)
		}
		for _, module := range []string{"web", "dbCache"} {
			changed, err := values.Changed(orEmptyMap(a.Sections[module]), orEmptyMap(b.Sections[module]))
			if err != nil {
				t.Fatal(err)
			}
			changed = changed || a.Maintained[module] != b.Maintained[module]
			if slices.Contains(there.Modules, module) != changed {
				t.Fatalf("module %s changes: %t, but the changed modules are %v", module, changed, there.Modules)
			}
			flag := values.Flag(module)
			was, had := a.Flags[flag]
			is, has := b.Flags[flag]
			if slices.Contains(there.Flags, flag) != (was != is || had != has) {
				t.Fatalf("flag %s: %t, %t becomes %t, %t, but the changed flags are %v", flag, was, had, is, has, there.Flags)
			}
		}
	})
}

// orEmptyMap returns section, or an empty map for an absent section.
func orEmptyMap(section any) any {
	if section == nil {
		return map[string]any{}
	}
	return section
}
