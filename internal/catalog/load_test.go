package catalog_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"

	"addon-operator/internal/catalog"
)

func load(t *testing.T, changed map[string]string) *catalog.Loaded {
	t.Helper()
	loaded, err := catalog.Load(files(addon(changed)))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestLoadReadsEveryField(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	loaded := load(t, map[string]string{
		"meta.yaml": `
ID: 123
name: store
version: v0.1
description: keeps values
displayName: Store
tags: " database,cache "
bindable: true
bindingsRetrievable: true
planUpdatable: false
requires: [syslog, 7]
providerDisplayName: Us
longDescription: long
documentationURL: https://d.example.com
supportURL: https://s.example.com
imageURL: https://i.example.com
provisionOnlyOnce: true
labels: {showcase: true, y: 1.10}
unknown: {}
`,
		"docs/meta.yaml":                          "docs: [{template: 1}]",
		"plans/large/values.yaml":                 "a: {b: [1, x]}",
		"plans/large/update-instance-schema.json": `{"type": ["object", "null"]}`,
		"plans/large/bind-instance-schema.json":   " {}\n",
	})
	want := catalog.Addon{
		ID: "123", Name: "store", Version: "v0.1", Description: "keeps values", DisplayName: "Store",
		Tags: []string{"database", "cache"}, Bindable: true, BindingsRetrievable: true, PlanUpdatable: &no,
		Requires: []string{"syslog", "7"}, ProviderDisplayName: "Us", LongDescription: "long",
		DocumentationURL: "https://d.example.com", SupportURL: "https://s.example.com", ImageURL: "https://i.example.com",
		ProvisionOnlyOnce: true, Labels: map[string]string{"showcase": "true", "true": "1.1"},
		Docs: json.RawMessage(`{"docs":[{"template":1}]}`),
		Plans: []catalog.Plan{
			{
				Directory: "large", ID: "0f4a-large", Name: "large", Description: "big", DisplayName: "Large", Free: &no,
				Values: json.RawMessage(`{"a":{"b":[1,"x"]}}`), CreateSchema: json.RawMessage(`{"type": "object"}`),
				UpdateSchema: json.RawMessage(`{"type": ["object", "null"]}`), BindSchema: json.RawMessage(" {}\n"),
			},
			{
				Directory: "micro", ID: "0f4a-micro", Name: "micro", Description: "small", DisplayName: "Micro", Bindable: &yes,
				Values: json.RawMessage(`{"size":2}`), Bind: []byte("credential: []\n"),
			},
		},
		Chart: catalog.Chart{Name: "store", Version: "1.2.3", Digest: loaded.Addon.Chart.Digest},
	}
	if diff := cmp.Diff(want, loaded.Addon); diff != "" {
		t.Error(diff)
	}
	record, err := json.Marshal(loaded.Addon)
	if err != nil {
		t.Fatal(err)
	}
	var stored catalog.Addon
	if err := json.Unmarshal(record, &stored); err != nil {
		t.Fatal(err)
	}
	want.Plans[0].CreateSchema, want.Plans[0].BindSchema = json.RawMessage(`{"type":"object"}`), json.RawMessage("{}")
	want.Plans[0].UpdateSchema = json.RawMessage(`{"type":["object","null"]}`)
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("as stored: %s", diff)
	}
}

// Prefixes of the errors that the stages of Load return.
const (
	discovering = `while loading chart: while discovering the name of the Helm Chart under the "chart" addon directory: `
	mapping     = "while mapping buffered files to form: "
	validating  = "while validating form: "
)

func TestLoadErrorsAreThoseOfHelmBroker(t *testing.T) {
	t.Parallel()
	both := func(a, b map[string]string) map[string]string {
		all := maps.Clone(a)
		maps.Copy(all, b)
		return all
	}
	for name, c := range map[string]struct {
		changed map[string]string
		want    string
	}{
		"missing plans":                 {without("plans/"), mapping + `addon does not contains any plans, please check if addon contains "plans" directory`},
		"missing chart directory":       {both(without("chart/"), map[string]string{"plans/micro/meta.yaml": ""}), discovering + `addon does not contains "chart" directory`},
		"several charts":                {map[string]string{"chart/store-v2/Chart.yaml": "x"}, discovering + `"chart" directory MUST contain only one Helm Chart folder but found multiple directories: [store, store-v2]`},
		"hidden directory beside chart": {map[string]string{"chart/.git/config": "x"}, discovering + `"chart" directory MUST contain only one Helm Chart folder but found multiple directories: [.git, store]`},
		"no chart": {
			both(without("chart/"), map[string]string{"chart/": "/", "plans/micro/bind.yaml": ""}),
			discovering + `"chart" directory SHOULD contain one Helm Chart folder but it's empty`,
		},
		"packed chart":         {both(without("chart/"), map[string]string{"chart/store-1.0.0.tgz": "x"}), discovering + `"chart" directory SHOULD contain one Helm Chart folder but it's empty`},
		"chart is a file":      {both(without("chart/"), map[string]string{"chart": "x"}), discovering + `addon does not contains "chart" directory`},
		"missing plan meta":    {map[string]string{"plans/micro/meta.yaml": ""}, mapping + `while unmarshaling plan "micro" file: "meta.yaml" is required but is not present`},
		"missing bind.yaml":    {map[string]string{"plans/micro/bind.yaml": ""}, validating + `while validating "micro" plan: plans is marked as bindable but bind.yaml file was not found in plan micro`},
		"bad create schema":    {map[string]string{"plans/large/create-instance-schema.json": `{"$schema"}`}, mapping + `while unmarshaling plan "large" file: while loading plan shcema: invalid character '}' after object key`},
		"schema is no object":  {map[string]string{"plans/large/create-instance-schema.json": `[{}]`}, mapping + `while unmarshaling plan "large" file: while loading plan shcema: create-instance-schema.json must be a JSON object (got a list)`},
		"big schema":           {map[string]string{"plans/large/update-instance-schema.json": `{"a": "` + strings.Repeat("x", 65844) + `"}`}, mapping + `while unmarshaling plan "large" file: schema update-instance-schema.json is larger than 64 kB`},
		"schema at the limit":  {map[string]string{"plans/large/update-instance-schema.json": `{"a":"` + strings.Repeat("x", 65536-8) + `"}`}, mapping + `while unmarshaling plan "large" file: schema update-instance-schema.json is larger than 64 kB`},
		"missing Chart.yaml":   {map[string]string{"chart/store/Chart.yaml": ""}, "while loading chart: while loading chart: Chart.yaml file is missing"},
		"chart without a name": {map[string]string{"chart/store/Chart.yaml": "version: 1.0.0"}, "while loading chart: while loading chart: validation: chart.metadata.name is required"},
		"bad chart version":    {map[string]string{"chart/store/Chart.yaml": "{name: store, version: abc}"}, `while loading chart: while loading chart: validation: chart.metadata.version "abc" is invalid`},
		"missing meta":         {map[string]string{"meta.yaml": ""}, mapping + `missing metadata information about addon, please check if addon contains "meta.yaml" file`},
		"missing meta in other case": {
			map[string]string{"meta.yaml": "", "Meta.yaml": "id: a"},
			mapping + `missing metadata information about addon, please check if addon contains "meta.yaml" file`,
		},
		"wrong types":     {map[string]string{"meta.yaml": "{id: [1], bindable: soon, labels: {a: {}}, requires: x}"}, mapping + `while unmarshaling addon "meta.yaml" file: id must be a string (got a list), bindable must be true or false (got a string), requires must be a list of strings (got a string), labels.a must be a string (got a map)`},
		"meta is a list":  {map[string]string{"meta.yaml": "[]"}, mapping + `while unmarshaling addon "meta.yaml" file: file must be a map (got a list)`},
		"meta is no YAML": {map[string]string{"meta.yaml": "a: b: c"}, mapping + `while unmarshaling addon "meta.yaml" file: mapping values are not allowed in this context`},
		"docs are a map":  {map[string]string{"docs/meta.yaml": "docs: {}"}, mapping + `while unmarshaling addon "docs/meta.yaml" file: docs must be a list (got a map)`},
		"empty docs":      {map[string]string{"docs/meta.yaml": "docs: []"}, validating + "while validating addon docs meta: docs array should have at most one entry"},
		"two docs":        {map[string]string{"docs/meta.yaml": "docs: [{}, {}]"}, validating + "while validating addon docs meta: docs array should have at most one entry"},
		"only files in plans": {
			both(without("plans/"), map[string]string{"plans/README": "x"}),
			validating + "addon does not contains any plans",
		},
		"hidden plan":     {map[string]string{"plans/.git/config": "x"}, mapping + `while unmarshaling plan ".git" file: "meta.yaml" is required but is not present`},
		"empty meta":      {map[string]string{"meta.yaml": "# nothing"}, validating + `missing metadata information about addon, please check if addon contains "meta.yaml" file`},
		"missing fields":  {map[string]string{"meta.yaml": "tags: a"}, validating + "while validating addon meta: missing ID field, missing Name field, missing Version field, missing Description field, missing displayName field"},
		"empty plan meta": {map[string]string{"plans/micro/meta.yaml": "# nothing"}, validating + `while validating "micro" plan: missing metadata information about plan. Please check if plan contains "meta.yaml" file`},
		"missing fields of plans": {
			map[string]string{"plans/micro/meta.yaml": "free: true", "plans/large/meta.yaml": "name: large"},
			validating + `while validating "large" plan: while validating plan meta: missing ID field, missing Description field, missing displayName field, ` +
				`while validating "micro" plan: while validating plan meta: missing ID field, missing Name field, missing Description field, missing displayName field`,
		},
		"plans with one ID": {
			map[string]string{"plans/micro/meta.yaml": "{id: 0f4a-large, name: micro, description: small, displayName: Micro}"},
			validating + `plans "large" and "micro" have the same ID "0f4a-large"`,
		},
		"plan values are a list": {map[string]string{"plans/micro/values.yaml": "[]"}, mapping + `while unmarshaling plan "micro" file: while loading plan values: file must be a map (got a list)`},
		"bad version":            {map[string]string{"meta.yaml": addon(nil)["meta.yaml"] + "\nversion: latest"}, "while mapping form to model: while converting form string version to semver type: Invalid Semantic Version"},
	} {
		loaded, err := catalog.Load(files(addon(c.changed)))
		if loaded != nil || err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

func TestAddonsThatHelmBrokerTakesAreLoaded(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]map[string]string{
		"files beside chart and plans":         {".DS_Store": "x", "chart/.DS_Store": "x", "chart/notes.txt": "x", "plans/.DS_Store": "x"},
		"bindable addon, plan unset":           {"plans/micro/meta.yaml": "{id: a, name: micro, description: small, displayName: Micro}", "plans/micro/bind.yaml": ""},
		"bindable plan, empty bind.yaml":       {"plans/micro/bind.yaml": " "},
		"largest schema":                       {"plans/large/update-instance-schema.json": `{"a":"` + strings.Repeat("x", 65535-8) + `"}`},
		"chart without apiVersion":             {"chart/store/Chart.yaml": "{name: store, version: 0.10.1}"},
		"chart of another name than its place": {"chart/store/Chart.yaml": "{name: other, version: 0.10.1}"},
		"empty values of a plan":               {"plans/micro/values.yaml": "# none"},
		"empty docs file":                      {"docs/meta.yaml": "# none"},
		"several documents":                    {"meta.yaml": addon(nil)["meta.yaml"] + "\n---\n[]"},
		"byte order mark":                      {"chart/store/Chart.yaml": "\ufeff" + addon(nil)["chart/store/Chart.yaml"], "meta.yaml": "\ufeff" + addon(nil)["meta.yaml"]},
	} {
		if _, err := catalog.Load(files(addon(changed))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPackedAddonIsLoadedLikeItsDirectory(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"bare names": "", "leading dots": "./"} {
		packed := map[string]string{}
		for file, text := range addon(nil) {
			packed[prefix+file] = text
		}
		fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(archiveOf(t, packed)), catalog.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := catalog.Load(fsys)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(load(t, nil), loaded); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(archive(t, tar.Header{Name: "store/meta.yaml", Linkname: "x"})), catalog.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Load(fsys); err == nil || !strings.HasSuffix(err.Error(), `addon does not contains "chart" directory`) {
		t.Errorf("with a wrapping directory: %v", err)
	}
}

func TestEqualChartsHaveEqualArchivesThatHelmReads(t *testing.T) {
	t.Parallel()
	sub := archive(t, tar.Header{Name: "sub/Chart.yaml", Linkname: "{apiVersion: v2, name: sub, version: 1.0.0}"})
	changed := map[string]string{
		"chart/store/.helmignore":         "secret.txt\n*.bak\n",
		"chart/store/secret.txt":          "x",
		"chart/store/templates/old.bak":   "x",
		"chart/store/templates/.hidden":   "x",
		"chart/store/crds/a.yaml":         "x",
		"chart/store/charts/sub-1.tgz":    string(sub),
		"chart/store/charts/b/Chart.yaml": "{name: b, version: 1.0.0}",
	}
	loaded := load(t, changed)
	changed["meta.yaml"] = addon(nil)["meta.yaml"] + "longDescription: another\n"
	moved := map[string]string{}
	for name, text := range addon(changed) {
		moved[strings.Replace(name, "chart/store/", "chart/renamed/", 1)] = text
	}
	again, err := catalog.Load(files(moved))
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Addon.Chart != again.Addon.Chart || !bytes.Equal(loaded.Archive, again.Archive) {
		t.Errorf("%v, then %v", loaded.Addon.Chart, again.Addon.Chart)
	}
	ch, err := loader.LoadArchive(bytes.NewReader(loaded.Archive))
	if err != nil {
		t.Fatal(err)
	}
	if ch.Name() != "store" || len(ch.Dependencies()) != 2 || len(ch.Templates) != 1 || len(ch.CRDObjects()) != 1 {
		t.Errorf("chart %s with %d subcharts, %d templates, %d CRDs", ch.Name(), len(ch.Dependencies()), len(ch.Templates), len(ch.CRDObjects()))
	}
	changed["chart/store/values.yaml"] = "size: 3"
	if other := load(t, changed); other.Addon.Chart.Digest == loaded.Addon.Chart.Digest {
		t.Error("another chart has the same digest")
	}
}

func TestChartThatExpandsWithoutBoundIsRefused(t *testing.T) {
	t.Parallel()
	aliases := "a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n"
	chartOf := func(name, text string) string {
		return string(archive(t, tar.Header{Name: "sub/Chart.yaml", Linkname: "{name: sub, version: 1.0.0}"}, tar.Header{Name: "sub/" + name, Linkname: text}))
	}
	nested := "x"
	for range 10 {
		nested = chartOf("charts/n.tgz", nested)
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"values":                {"values.yaml", aliases, "values.yaml: expands to more than the limit of 16 MiB"},
		"large values":          {"values.yaml", "a: " + strings.Repeat("x", 2<<20), "values.yaml: file has 2097155 bytes, more than the limit of 1048576 for YAML"},
		"values of a subchart":  {"charts/b/values.yaml", aliases, "charts/b/values.yaml: expands to more than the limit of 16 MiB"},
		"packed subchart":       {"charts/b.tgz", chartOf("values.yaml", aliases), "charts/b.tgz: values.yaml: expands to more than the limit of 16 MiB"},
		"nested subcharts":      {"charts/b.tgz", nested, "charts/n.tgz: archives of subcharts are nested more than 4 levels deep"},
		"large packed subchart": {"charts/b.tgz", chartOf("data", strings.Repeat("x", 6<<20)), `charts/b.tgz: archive entry "sub/data": file has 6291456 bytes, more than the limit of 5242880`},
		"large file":            {"data", strings.Repeat("x", 6<<20), "chart/store/data has more than the limit of 5242880 bytes"},
		"deep":                  {strings.Repeat("d/", 40) + "x", "x", "path has more than the limit of 32 directories"},
		"ignore rules":          {".helmignore", strings.Repeat("a*b*c*d\n", 10_000), ".helmignore has more than the limit of 65536 bytes"},
	} {
		_, err := catalog.Load(files(addon(map[string]string{"chart/store/" + c.file: c.text})))
		if err == nil || !strings.HasPrefix(err.Error(), "while loading chart: while loading chart: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

func TestMetadataBeyondItsLimitsIsRefused(t *testing.T) {
	t.Parallel()
	plans := map[string]string{}
	for name := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		plans["plans/"+name+"/meta.yaml"] = "{id: " + name + ", name: n, description: d, displayName: d}"
		plans["plans/"+name+"/values.yaml"] = "a: " + strings.Repeat("x", 100_000)
	}
	if _, err := catalog.Load(files(addon(plans))); err == nil || !strings.Contains(err.Error(), "metadata, plans and schemas have 26") {
		t.Error(err)
	}
	bomb := map[string]string{"plans/micro/values.yaml": "a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]"}
	if _, err := catalog.Load(files(addon(bomb))); err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Error(err)
	}
}

func TestLinksInsideADirectoryAreFollowedAndOthersAreRefused(t *testing.T) {
	t.Parallel()
	write := func(dir string, texts map[string]string) {
		for name, text := range texts {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for link, c := range map[string]struct{ target, want string }{
		"inside/chart/store/shared": {"../../../shared", ""},
		"inside/chart/linked":       {"../../charts/linked", "found multiple directories: [linked, store]"},
		"outside/chart/store/x":     {"/etc/hostname", "path escapes from parent"},
		"parent/chart/store/x":      {"../../../../../../../etc", "path escapes from parent"},
		"broken/chart/store/x":      {"nowhere", "is not a regular file"},
		"loop/chart/store/x":        {".", "too many levels of symbolic links"},
	} {
		dir := t.TempDir()
		name, _, _ := strings.Cut(link, "/")
		write(filepath.Join(dir, name), addon(nil))
		write(dir, map[string]string{"shared/file": "x", "charts/linked/Chart.yaml": "x"})
		if err := os.Symlink(c.target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		fsys, err := fs.Sub(root.FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = catalog.Load(fsys)
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", link, err, c.want)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFindingsOfHelmLintAreAdviceOnly(t *testing.T) {
	t.Parallel()
	if advice := load(t, nil).Advice; len(advice) > 0 {
		t.Errorf("a good chart: %v", advice)
	}
	got := load(t, map[string]string{
		"chart/store/Chart.yaml": "{name: store, version: 1.0.0, maintainers: [{email: x}], dependencies: [{name: sub, version: 1.0.0, repository: 'https://127.0.0.1:1/'}]}",
		"chart/store-1.0.0.tgz":  "x",
	}).Advice
	want := []string{
		"[WARNING] chart/store-1.0.0.tgz: file is ignored; the chart must be a directory",
		`[ERROR] Chart.yaml: apiVersion is required. The value must be either "v1" or "v2"`,
		"[ERROR] Chart.yaml: each maintainer requires a name",
		"[ERROR] Chart.yaml: dependencies are not valid in the Chart file with apiVersion ''. They are valid in apiVersion 'v2'",
		"[WARNING] Chart.yaml: chart directory is missing the dependency sub; run helm dependency update",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzLoad checks that Load of any files returns a complete addon or an error.
func FuzzLoad(f *testing.F) {
	a := addon(nil)
	f.Add(a["meta.yaml"], a["plans/micro/meta.yaml"], a["plans/micro/values.yaml"], a["plans/large/create-instance-schema.json"], a["chart/store/Chart.yaml"], "docs: [{}]", "*.bak")
	f.Add("id: 1", "id: [", "[]", `{"a": [1]}`, "{name: a, version: v1, dependencies: [null], maintainers: [null]}", "docs: 1", "!a\n/b/\n[")
	f.Add("a: &a {<<: *a}", "{}", "a: .nan", `{"$schema"}`, "", "", "**")
	f.Fuzz(func(t *testing.T, meta, plan, values, schema, chart, docs, ignored string) {
		loaded, err := catalog.Load(files(addon(map[string]string{
			"meta.yaml": meta, "plans/micro/meta.yaml": plan, "plans/micro/values.yaml": values, "chart/store/values.yaml": values,
			"plans/large/create-instance-schema.json": schema, "chart/store/Chart.yaml": chart, "docs/meta.yaml": docs, "chart/store/.helmignore": ignored,
		})))
		if err != nil {
			return
		}
		if a := loaded.Addon; a.ID == "" || a.Name == "" || a.Version == "" || len(a.Plans) == 0 || a.Chart.Name == "" {
			t.Errorf("%+v", a)
		}
		if _, err := json.Marshal(loaded.Addon); err != nil {
			t.Error(err)
		}
		if _, err := loader.LoadArchive(bytes.NewReader(loaded.Archive)); err != nil {
			t.Errorf("archive of the chart: %v", err)
		}
	})
}

// BenchmarkLoad loads a packed addon.
func BenchmarkLoad(b *testing.B) {
	packed := archiveOf(b, addon(nil))
	b.ReportAllocs()
	for b.Loop() {
		fsys, err := catalog.Unpack(b.Context(), bytes.NewReader(packed), catalog.DefaultLimits)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := catalog.Load(fsys); err != nil {
			b.Fatal(err)
		}
	}
}

// TestChartWhoseSchemaRefersToOtherDocumentsIsRefused checks that Load rejects charts whose schema refers to a file or
// a URL. Otherwise Helm would read this file of the operator, or this URL in the operator's network.
func TestChartWhoseSchemaRefersToOtherDocumentsIsRefused(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		_, _ = w.Write([]byte("true"))
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"enum": ["hunter2"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	subchart := archive(t,
		tar.Header{Name: "sub/Chart.yaml", Linkname: "{apiVersion: v2, name: sub, version: 1.0.0}"},
		tar.Header{Name: "sub/values.schema.json", Linkname: `{"$ref": "` + server.URL + `/packed"}`})
	const sub = "chart/store/charts/sub/"
	for what, c := range map[string]struct {
		files map[string]string
		want  string // "" if there is no error
	}{
		"a file":       {map[string]string{"chart/store/values.schema.json": `{"$ref": "file://` + secret + `"}`}, "values.schema.json: reference to file://" + secret},
		"a path":       {map[string]string{"chart/store/values.schema.json": `{"properties": {"a": {"$ref": "etc/passwd"}}}`}, "reference to file:///etc/passwd"},
		"a URL":        {map[string]string{"chart/store/values.schema.json": `{"allOf": [{"$ref": "` + server.URL + `/x"}]}`}, "reference to " + server.URL + "/x"},
		"an $id":       {map[string]string{"chart/store/values.schema.json": `{"$id": "` + server.URL + `/x/", "$ref": "y"}`}, "reference to " + server.URL + "/x/y"},
		"a $schema":    {map[string]string{"chart/store/values.schema.json": `{"$schema": "` + server.URL + `/meta"}`}, "reference to " + server.URL + "/meta"},
		"a subchart":   {map[string]string{sub + "Chart.yaml": "{apiVersion: v2, name: sub, version: 1.0.0}", sub + "values.schema.json": `{"$ref": "` + server.URL + `"}`}, "charts/sub/values.schema.json: reference to"},
		"an archive":   {map[string]string{"chart/store/charts/sub.tgz": string(subchart)}, "charts/sub.tgz: values.schema.json: reference to"},
		"no JSON":      {map[string]string{"chart/store/values.schema.json": `{"type":`}, "values.schema.json: the schema is not JSON"},
		"no schema":    {map[string]string{"chart/store/values.schema.json": `{"type": 1}`}, "values.schema.json: the schema cannot be used"},
		"itself":       {map[string]string{"chart/store/values.schema.json": `{"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}`}, ""},
		"a draft":      {map[string]string{"chart/store/values.schema.json": `{"$schema": "http://json-schema.org/schema#", "type": "object"}`}, ""},
		"a URN":        {map[string]string{"chart/store/values.schema.json": `{"properties": {"a": {"$ref": "urn:a:b"}}}`}, ""},
		"another file": {map[string]string{"chart/store/files/values.schema.json": `{"$ref": "` + server.URL + `"}`}, ""},
	} {
		_, err := catalog.Load(files(addon(c.files)))
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: the error is %v, want one with %q", what, err, c.want)
		}
	}
	if n := reads.Load(); n > 0 {
		t.Errorf("%d documents were read from the server", n)
	}
}
