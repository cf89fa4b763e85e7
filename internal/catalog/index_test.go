package catalog_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
)

// shown returns each entry as "NAME VERSION", followed by ": " and its error if it has one.
func shown(entries []catalog.Entry) []string {
	var out []string
	for _, e := range entries {
		line := e.Name + " " + e.Version
		if e.Err != nil {
			line += ": " + e.Err.Error()
		}
		out = append(out, line)
	}
	return out
}

func TestIndexEntriesAreSortedByNameAndKeepTheOrderOfVersions(t *testing.T) {
	t.Parallel()
	entries, err := catalog.ParseIndex([]byte(`
apiVersion: v1
entries:
  zeta: [{version: 1.0.0}]
  redis:
  - {name: another name, description: a store, version: v0.0.2}
  - {version: 0.0.1, unknown: [1]}
  alpha: [{Version: 1}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alpha 1", "redis v0.0.2", "redis 0.0.1", "zeta 1.0.0"}, shown(entries)); diff != "" {
		t.Error(diff)
	}
}

func TestIndexReadsWhatHelmBrokerReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                    nil,
		"apiVersion: v1":                      nil,
		"entries:":                            nil,
		"entries: {}":                         nil,
		"entries: {redis: null}":              nil,
		"entries: {redis: []}":                nil,
		"Entries: {redis: [{VERSION: 1.10}]}": {"redis 1.1"},
		"entries: {redis: [{version: 1.0.0, version: 2.0.0}]}":      {"redis 2.0.0"},
		"entries: {a: [{version: 1}]}\n---\nentries: {b: [{}]}":     {"a 1"},
		`{"entries": {"redis": [{"version": "1.2.3-rc.1+build"}]}}`: {"redis 1.2.3-rc.1+build"},
		"\ufeffentries: {a: [{version: 1}]}":                        {"a 1"},
	} {
		entries, err := catalog.ParseIndex([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, shown(entries)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestBadEntryOfAnIndexFailsAlone(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"redis: [{version: latest}]":      `redis latest: version of the addon in the index: "latest" is not a semantic version; write it like 1.2.3`,
		"redis: [{version: 1.2.3.4}]":     `redis 1.2.3.4: version of the addon in the index: "1.2.3.4" is not a semantic version; write it like 1.2.3`,
		"redis: [{version: ''}]":          `redis : version of the addon in the index: "" is not a semantic version; write it like 1.2.3`,
		"redis: [{}]":                     `redis : version of the addon in the index: "" is not a semantic version; write it like 1.2.3`,
		"redis: [{version: [1]}]":         "redis : version of the addon in the index must be a string (got a list)",
		"redis: [x]":                      `redis : a version of the addon in the index must be a map with the key "version" (got a string)`,
		"redis: x":                        "redis : the index must have a list of versions for the addon (got a string)",
		"../../etc: [{version: 1.0.0}]":   `../../etc 1.0.0: addon name "../../etc" must not begin with a dot or contain slashes, backslashes or control characters`,
		"'': [{version: 1.0.0}]":          " 1.0.0: addon name is empty",
		"redis: [{version: '1/../../x'}]": `redis 1/../../x: version of the addon in the index: "1/../../x" is not a semantic version; write it like 1.2.3`,
	} {
		entries, err := catalog.ParseIndex([]byte("entries:\n  zzz: [{version: 1.0.0}]\n  " + entry))
		if err != nil {
			t.Errorf("%q: %v", entry, err)
		} else if diff := cmp.Diff([]string{want, "zzz 1.0.0"}, shown(entries)); diff != "" {
			t.Errorf("%q: %s", entry, diff)
		}
	}
}

func TestTextThatIsNoIndexIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"entries: []":                    "entries of the index must be a map of addon names to lists of versions (got a list)",
		"entries: soon":                  "entries of the index must be a map of addon names to lists of versions (got a string)",
		"hello":                          `index must be a map with the key "entries" (got a string)`,
		"- a":                            `index must be a map with the key "entries" (got a list)`,
		"\n<!DOCTYPE html><html></html>": "index is an HTML or XML page, not YAML; check the address",
		"entries: {a: [":                 "index is not valid YAML: line 1: did not find expected node content",
	} {
		if _, err := catalog.ParseIndex([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestIndexBeyondItsLimitsIsRefused(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString("entries:\n")
	for i := range 100_000 {
		many.WriteString("  a" + strconv.Itoa(i) + ": [{version: 1.0.0}]\n")
	}
	bomb := "a: &a [{version: 1}]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\nentries: {}\n"
	for name, c := range map[string]struct{ text, want string }{
		"size":    {many.String(), "more than the limit of 1048576"},
		"entries": {"entries:\n  a:\n" + strings.Repeat("  - {version: 1}\n", 5001), "more than the limit of 5000 entries"},
		"aliases": {bomb, "index is not valid YAML: "},
		"strings": {"a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n", "16 MiB"},
	} {
		if _, err := catalog.ParseIndex([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestNormalizedVersionsOfOneVersionAreEqual(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.0.0": "1.0.0", "1": "1.0.0", "v1.2": "1.2.0", "1.2.3-rc.1": "1.2.3-rc.1", "1.2.3+b": "1.2.3+b", "latest": "latest", "": "",
	} {
		if got := catalog.NormalizeVersion(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

// FuzzParseIndex checks that ParseIndex of any text returns an error or sorted entries, and that no entry without an
// error can leave the directory of the index.
func FuzzParseIndex(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nentries:\n  redis:\n  - {name: redis, version: 0.0.1}", "entries: {a: [{version: 1.10}]}", "entries: []", "<html>",
		"entries: {../a: [{version: v1}]}", "a: &a [1]\nentries: {b: *a}", "entries: {a: null}", "Entries: {a: [{Version: 1}]}\nentries: {}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := catalog.ParseIndex(text)
		if err != nil && entries != nil {
			t.Error("both entries and an error")
		}
		for i, e := range entries {
			if i > 0 && entries[i-1].Name > e.Name {
				t.Errorf("%q stands before %q", entries[i-1].Name, e.Name)
			}
			if e.Err == nil && (e.Name == "" || strings.ContainsAny(e.Name+e.Version, "/\\\x00\n")) {
				t.Errorf("entry %q %q has no error", e.Name, e.Version)
			}
		}
	})
}
