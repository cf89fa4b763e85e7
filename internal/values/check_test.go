package values_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/schema"
	"addon-operator/internal/values"
)

// schemas parses the schemas of section "m".
func schemas(t interface {
	Helper()
	Fatal(args ...any)
}, config, merged string,
) map[string]*schema.Set {
	t.Helper()
	set, err := schema.Parse(schema.File{Path: "config-values.yaml", Text: []byte(config)}, schema.File{Path: "values.yaml", Text: []byte(merged)})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*schema.Set{"m": set}
}

func TestDefaultsStandBetweenTheLayers(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static: doc(t, `{"m":{"static":"file","config":"file","values":"file"}}`),
		Config: values.Config{Sections: doc(t, `{"m":{"config":"map","object":{"a":"map"}}}`)},
		Saved:  map[string][]values.Saved{"m": {saved("add", "/m/patched", `"hook"`, "h"), saved("add", "/m/list/-", `{}`, "h")}},
		Schemas: schemas(t, `
properties:
  static: {type: string, default: config default}
  config: {type: string, default: config default}
  object: {type: object, default: {a: config default, b: config default}}
  both: {type: string, default: config default}
`, `
properties:
  values: {type: string, default: values default}
  both: {type: string, default: values default}
  patched: {type: string, default: values default}
  last: {type: string, default: values default}
  list: {type: array, default: [{}], items: {type: object, properties: {port: {type: integer, default: 80}}}}
`),
	}
	got, skipped := l.Section("m")
	want := doc(t, `{"m":{
		"static":"file", "config":"map", "values":"file", "both":"config default", "last":"values default",
		"object":{"a":"map","b":"config default"}, "patched":"hook", "list":[{"port":80},{}]}}`)["m"]
	if diff := cmp.Diff(want, got); diff != "" || len(skipped) > 0 {
		t.Errorf("-want +got\n%s\nskipped: %v", diff, skipped)
	}
	if diff := cmp.Diff(doc(t, `{"m":{"config":"map","object":{"a":"map"}},"global":null}`), l.HookConfigValues("m")); diff != "" {
		t.Errorf("hooks are shown more than the ConfigMap says: -want +got\n%s", diff)
	}
}

func TestADefaultIsThereForASectionThatNobodyMentions(t *testing.T) {
	t.Parallel()
	l := values.Layers{Schemas: schemas(t, "properties: {size: {type: integer, default: 3}}", "")}
	if got, _ := l.Section("m"); cmp.Diff(doc(t, `{"m":{"size":3}}`)["m"], got) != "" {
		t.Errorf("got %v", got)
	}
}

func TestTheConfigMapIsHeldToItsOwnSchema(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static: doc(t, `{"m":{"domain":"file"}}`),
		Config: values.Config{Sections: doc(t, `{"m":{"size":1}}`)},
		Schemas: schemas(t, `
type: object
required: [domain, kind]
properties:
  domain: {type: string}
  kind: {type: string, default: small}
  size: {type: integer}
  list: {type: array, items: {type: object, properties: {name: {type: string}}}}
x-deckhouse-validations:
- {expression: "!has(oldSelf.size) || self.size >= oldSelf.size", message: it does not shrink}
`, ""),
	}
	for _, c := range []struct{ section, want string }{
		{`{"size":2}`, ""}, // the domain is set in the values file
		{`{"domain":"a"}`, ""},
		{`{"other":1}`, "m.other is not known"},
		{`{"list":[{"name":"a"},{"title":"b"}]}`, "m.list[1].title is not known"},
		{`{"size":0}`, "it does not shrink"},
		{`[]`, "m must be of type object"},
	} {
		section := doc(t, `{"m":`+c.section+`}`)["m"]
		err := l.CheckConfig("m", section)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.section, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "config-values.yaml rejects the content of the ConfigMap") {
			t.Errorf("%s: %v does not say which file", c.section, err)
		}
	}
	l.Static = nil
	if err := l.CheckConfig("m", nil); err == nil || !strings.Contains(err.Error(), "m.domain is missing") {
		t.Errorf("got %v", err)
	}
	if err := l.CheckConfig("other", nil); err != nil {
		t.Errorf("a section without schema: %v", err)
	}
}

func TestFilesAndConfigMapAreHeldToBothSchemas(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static:  doc(t, `{"m":{"a":"file"}}`),
		Schemas: schemas(t, "properties: {a: {type: string}}", "x-extend: {schema: config-values.yaml}\nrequired: [b]\nproperties: {b: {type: string}}"),
	}
	if err := l.CheckFiles("m"); err != nil {
		t.Errorf("a hook can set the missing value: %v", err)
	}
	l.Static = doc(t, `{"m":{"a":"file","c":"file"}}`)
	if err := l.CheckFiles("m"); err == nil || !strings.HasPrefix(err.Error(), "values.yaml rejects the merged values: m.c is not known") {
		t.Errorf("got %v", err)
	}
	l.Static = doc(t, `{"m":{"a":1}}`)
	if err := l.CheckFiles("m"); err == nil || !strings.HasPrefix(err.Error(), "config-values.yaml rejects the values in values.yaml and the ConfigMap: m.a must be of type string") {
		t.Errorf("got %v", err)
	}
	l.Static = doc(t, `{"m":{"a":"file"}}`)
	l.Saved = map[string][]values.Saved{"m": {saved("add", "/m/b", `"hook"`, "h")}}
	if err := l.CheckFiles("m"); err != nil {
		t.Errorf("got %v", err)
	}
	l.Saved = map[string][]values.Saved{"m": {saved("add", "/m/b", `1`, "h")}}
	if err := l.CheckFiles("m"); err == nil || !strings.HasPrefix(err.Error(), "values.yaml rejects the merged values: m.b must be of type string") {
		t.Errorf("got %v", err)
	}
}

// In flant/addon-operator, config-values.yaml describes only the content of the ConfigMap. Values files can have more
// keys.
func TestValuesFilesCanHaveKeysThatUsersCannotSet(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static: doc(t, `{"m":{"domain":"file","internal":{"certificates":{}},"list":[{"hidden":true}]}}`),
		Schemas: schemas(t, `
required: [domain]
properties:
  domain: {type: string}
  size: {type: integer}
  list: {type: array, items: {properties: {name: {type: string}}}}
`, `
x-extend: {schema: config-values.yaml}
properties:
  internal: {type: object, additionalProperties: true}
  list: {type: array, items: {properties: {name: {type: string}, hidden: {type: boolean}}}}
`),
	}
	for _, c := range []struct{ section, want string }{
		{`{}`, ""},
		{`{"size":1}`, ""},
		{`{"internal":{}}`, "m.internal is not known"},
		{`{"list":[{"hidden":true}]}`, "m.list[0].hidden is not known"},
		{`{"size":"x"}`, "m.size must be of type integer"},
	} {
		l.Config = values.Config{Sections: doc(t, `{"m":`+c.section+`}`)}
		for what, err := range map[string]error{"files": l.CheckFiles("m"), "ConfigMap": l.CheckConfig("m", l.Config.Sections["m"])} {
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, %s: got %v, want %q", c.section, what, err, c.want)
			}
		}
	}

	// Without a schema for values, the schema of the section also validates the keys of values files.
	l.Config, l.Schemas = values.Config{}, schemas(t, "properties: {domain: {type: string}}", "")
	if err := l.CheckFiles("m"); err == nil || !strings.Contains(err.Error(), "m.internal is not known") {
		t.Errorf("got %v", err)
	}
}

// If no schema of an anyOf matches because values are missing, the validator reports the anyOf in addition to the
// missing values.
func TestValuesThatACombinedSchemaRequiresMayBeMissingAtTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ combined, static, want string }{
		{"oneOf: [{required: [ca]}, {required: [issuer]}]", `{}`, ""},
		{"anyOf: [{required: [ca]}, {required: [issuer]}]", `{}`, ""},
		{"allOf: [{required: [ca]}, {required: [issuer]}]", `{}`, ""},
		{"allOf: [{required: [ca]}, {properties: {ca: {type: string}}}]", `{"issuer":1}`, "m.tls.issuer must be of type string"},
		{"oneOf: [{required: [ca]}, {required: [issuer]}]", `{"ca":"a","issuer":"b"}`, "m.tls must match exactly one of the listed schemas (oneOf)"},
		{"anyOf: [{properties: {ca: {enum: [a]}}}, {required: [issuer], properties: {ca: {enum: [b]}}}]", `{"ca":"c"}`, "m.tls.ca should be one of"},
	} {
		l := values.Layers{
			Static:  doc(t, `{"m":{"tls":`+c.static+`}}`),
			Schemas: schemas(t, "", "properties: {tls: {type: object, properties: {ca: {type: string}, issuer: {type: string}}, "+c.combined+"}}"),
		}
		if err := l.CheckFiles("m"); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %s: got %v, want %q", c.combined, c.static, err, c.want)
		}
	}
}

func TestRulesHoldAlsoIfValuesFilesHaveKeysThatUsersCannotSet(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static: doc(t, `{"m":{"internal":{}}}`),
		Schemas: schemas(t, `
properties: {size: {type: integer}}
x-deckhouse-validations: [{expression: "!has(self.size) || self.size < 10", message: too large}]
`, "properties: {internal: {type: object}, size: {type: integer}}"),
	}
	for section, want := range map[string]string{`{"size":9}`: "", `{"size":10}`: "m: too large (x-deckhouse-validations)"} {
		l.Config = values.Config{Sections: doc(t, `{"m":`+section+`}`)}
		for what, err := range map[string]error{"files": l.CheckFiles("m"), "ConfigMap": l.CheckConfig("m", l.Config.Sections["m"])} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
				t.Errorf("%s, %s: got %v, want %q", section, what, err, want)
			}
		}
	}
}

// The example is from the document VALUES of flant/addon-operator. No hook has run at the start, so the values that
// hooks set are missing. Values that the ConfigMap must have may not be missing.
func TestValuesThatOnlyHooksSetMayBeMissingAtTheStart(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Config: values.Config{Sections: doc(t, `{"m":{"project":"a","clusterName":"b"}}`)},
		Schemas: schemas(t, `
type: object
additionalProperties: false
required: [project, clusterName]
properties:
  project: {type: string}
  clusterName: {type: string}
  clusterHostname: {type: string}
`, `
x-extend: {schema: config-values.yaml}
type: object
additionalProperties: false
required: [discovery, param1]
properties:
  discovery: {type: object}
  param1: {type: string}
`),
	}
	if err := l.CheckFiles("m"); err != nil {
		t.Errorf("got %v", err)
	}
	if err := checkMerged(l, "m"); err == nil || !strings.Contains(err.Error(), "m.discovery is missing") {
		t.Errorf("after a hook: got %v", err)
	}
	if err := l.CheckHelm("m"); err == nil || !strings.Contains(err.Error(), "m.discovery is missing") {
		t.Errorf("before Helm: got %v", err)
	}
	l.Config.Sections = doc(t, `{"m":{"project":"a"}}`)
	if err := l.CheckFiles("m"); err == nil || !strings.Contains(err.Error(), "m.clusterName is missing") {
		t.Errorf("got %v", err)
	}
}

func TestWhatHelmLacksSaysWhoCouldSetIt(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Schemas: schemas(t, "properties: {domain: {type: string}}",
			"x-extend: {schema: config-values.yaml}\nx-required-for-helm: [domain, cert]\nproperties: {cert: {type: string}}"),
	}
	err := l.CheckHelm("m")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`m.domain is missing and must be set: set it in the ConfigMap under "m", or a hook of the module sets it`,
		"m.cert is missing and must be set: a hook of the module sets it by its values patch",
		"values.yaml rejects the values for Helm",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	l.Saved = map[string][]values.Saved{"m": {saved("add", "/m/cert", `"c"`, "h"), saved("add", "/m/domain", `"d"`, "h")}}
	if err := l.CheckHelm("m"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestGlobalValuesForHelmAreAskedForToo(t *testing.T) {
	t.Parallel()
	l := values.Layers{Schemas: map[string]*schema.Set{values.Global: schemas(t, "", "x-required-for-helm: zone\nproperties: {zone: {type: string}}")["m"]}}
	if err := l.CheckHelm("m"); err == nil || !strings.Contains(err.Error(), `global.zone is missing and must be set: set it in the ConfigMap under "global", or a global hook`) {
		t.Errorf("got %v", err)
	}
	document, _ := l.HelmValues("m", []string{"m"})
	if diff := cmp.Diff(map[string]any{"global": map[string]any{"enabledModules": []any{"m"}}, "m": map[string]any{}}, document); diff != "" {
		t.Errorf("the list of enabled modules is held to the schema: -want +got\n%s", diff)
	}
}

func TestASchemaThatChangedTakesAwayOnlyTheOperationsItRefuses(t *testing.T) {
	t.Parallel()
	old := []values.Saved{
		saved("add", "/m/gone", `1`, "a"),
		saved("add", "/m/kept", `"x"`, "a"),
		saved("add", "/m/sum", `{"a":1}`, "b"),
		saved("add", "/m/typed", `"text"`, "b"),
	}
	paths := func(saved []values.Saved) (out []string) {
		for _, s := range saved {
			out = append(out, s.Path)
		}
		return out
	}
	for _, c := range []struct {
		name, schema string
		static       string
		want         []string
	}{
		{"all fit", "additionalProperties: true", `{}`, nil},
		{"one is not known any more", "properties: {kept: {type: string}, sum: {type: object, additionalProperties: true}, typed: {type: string}}", `{}`, []string{"/m/gone"}},
		{"two", "properties: {gone: {type: integer}, kept: {type: string}, typed: {type: integer}}", `{}`, []string{"/m/sum", "/m/typed"}},
		{"a rule", "additionalProperties: true\nx-deckhouse-validations: [{expression: '!has(self.gone)', message: m}]", `{}`, []string{"/m/gone"}},
		{"a rule that no single one breaks", "additionalProperties: true\nx-deckhouse-validations: [{expression: '!has(self.gone) && !has(self.kept)', message: m}]", `{}`, []string{"/m/gone", "/m/kept", "/m/sum", "/m/typed"}},
		{"the files are wrong, not the operations", "additionalProperties: true\nproperties: {static: {type: string}}", `{"static":1}`, nil},
	} {
		l := values.Layers{
			Static: doc(t, `{"m":`+c.static+`}`), Saved: map[string][]values.Saved{"m": old}, Schemas: schemas(t, "", c.schema),
		}
		if diff := cmp.Diff(c.want, paths(l.Unfit("m"))); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
		if len(l.Saved["m"]) != len(old) {
			t.Errorf("%s: the operations were changed", c.name)
		}
	}
}

// Only a hook can set the value again. The hook cannot run while an operation that fitted the earlier schema makes the
// module broken.
func TestARequiredValueOfTheWrongTypeIsTakenAway(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static: doc(t, `{"m":{"size":1}}`),
		Saved: map[string][]values.Saved{"m": {
			saved("add", "/m/keys", `{}`, "a"), saved("add", "/m/keys/ca", `"text"`, "a"), saved("add", "/m/keys/id", `"text"`, "a"), saved("add", "/m/zone", `"x"`, "a"),
		}},
		Schemas: schemas(t, "", `
required: [keys, zone]
properties:
  keys: {type: object, required: [ca], properties: {ca: {type: object}, id: {type: string}}}
  zone: {type: string}
  size: {type: integer}
`),
	}
	if diff := cmp.Diff([]string{`add /m/keys/ca "text" a`}, brief(l.Unfit("m"))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	l.Saved["m"] = slices.Delete(l.Saved["m"], 1, 2)
	if err := l.CheckFiles("m"); err != nil {
		t.Errorf("got %v", err)
	}

	// If a rule is violated because of another layer, no operation that sets a required value is unfit.
	l.Schemas = schemas(t, "", `
required: [keys, zone]
properties: {keys: {type: object, additionalProperties: true}, zone: {type: string}, size: {type: integer}}
x-deckhouse-validations: [{expression: "self.size > 1", message: too small}]
`)
	if unfit := l.Unfit("m"); len(unfit) > 0 {
		t.Errorf("unfit are %v", brief(unfit))
	}
}

func TestUnfitTakesTheRemoveOfAReplacedElementWithItsAdd(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Static: doc(t, `{"m":{"l":["a","b"]}}`),
		Saved: map[string][]values.Saved{"m": {
			saved("remove", "/m/l/0", ``, "a"), saved("add", "/m/l/0", `1`, "a"), saved("remove", "/m/l/1", ``, "a"), saved("add", "/m/l/1", `"B"`, "a"),
		}},
		Schemas: schemas(t, "", "properties: {l: {type: array, items: {type: string}}}"),
	}
	if diff := cmp.Diff([]string{"remove /m/l/0 a", "add /m/l/0 1 a"}, brief(l.Unfit("m"))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestUnfitLeavesNothingThatMakesValuesWorse checks that the values are valid after the unfit operations are removed,
// and that no operation is unfit if the values are valid.
func TestUnfitLeavesNothingThatMakesValuesWorse(t *testing.T) {
	t.Parallel()
	set := schemas(t, "", "properties: {a: {type: integer}, b: {type: string, maxLength: 2}, c: {type: object, properties: {a: {type: integer}}}}")
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) values.Op {
			return values.Op{
				Op:    "add",
				Path:  rapid.SampledFrom([]string{"/m/a", "/m/b", "/m/c", "/m/c/a", "/m/d"}).Draw(t, "path"),
				Value: []byte(rapid.SampledFrom([]string{`1`, `"x"`, `"long"`, `{}`, `{"a":"x"}`}).Draw(t, "value")),
			}
		}), 0, 8).Draw(t, "operations")
		l := values.Layers{Saved: map[string][]values.Saved{"m": values.MergePatches(nil, ops, "h")}, Schemas: set}
		unfit := map[string]bool{}
		for _, s := range l.Unfit("m") {
			unfit[s.Path] = true
		}
		var left []values.Saved
		for _, s := range l.Saved["m"] {
			if !unfit[s.Path] {
				left = append(left, s)
			}
		}
		before := checkMerged(l, "m")
		l.Saved = map[string][]values.Saved{"m": left}
		if err := checkMerged(l, "m"); err != nil {
			t.Errorf("before: %v\nafter: %v", before, err)
		}
		if before == nil && len(unfit) > 0 {
			t.Errorf("operations that fit are reported as unfit: %v", unfit)
		}
	})
}

// checkMerged checks the merged values of a section.
func checkMerged(l values.Layers, key string) error {
	section, _ := l.Section(key)
	return l.CheckMerged(key, section, nil)
}

// saved returns a saved operation of a hook.
func saved(op, path, value, hook string) values.Saved {
	return values.Saved{Op: values.Op{Op: op, Path: path, Value: []byte(value)}, Hook: hook}
}
