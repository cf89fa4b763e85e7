package values_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
)

func TestParseFileReadsSectionsAndFlags(t *testing.T) {
	t.Parallel()
	got, err := values.ParseFile("modules/values.yaml", []byte(`
global:
  param1: 100
someModule:
  param1: "String"
emptyModule:
someModuleEnabled: false
nginxIngressEnabled: true
fooEnabled: "true"
barEnabled: 'False '
bazEnabled: yes
`))
	if err != nil {
		t.Fatal(err)
	}
	want := values.File{
		Path:     "modules/values.yaml",
		Sections: doc(t, `{"global":{"param1":100},"someModule":{"param1":"String"},"emptyModule":{}}`),
		Flags: map[string]bool{
			"someModuleEnabled": false, "nginxIngressEnabled": true, "fooEnabled": true, "barEnabled": false, "bazEnabled": true,
		},
		Bad: map[string]error{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseFileOfNothingSaysNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "---\n", "# later\n", "{}", "null"} {
		got, err := values.ParseFile("values.yaml", []byte(text))
		if err != nil || len(got.Sections)+len(got.Flags)+len(got.Bad) != 0 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestParseFileRefusesWhatIsNoMapWithThePlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"a: 1\nb: [\n", "m/values.yaml:2: not valid YAML: "},
		{"a: b: c\n", "m/values.yaml: not valid YAML: mapping values are not allowed"},
		{"global:\n  a: 1\n b: 2\n", "m/values.yaml:2: not valid YAML: "},
		{"- a\n", "m/values.yaml: contains a list: it must be a map of sections"},
		{"text", "m/values.yaml: contains a string"},
		{"a: .nan", "m/values.yaml: .nan and .inf are no JSON numbers"},
		{"\x00\x01", "m/values.yaml: not valid YAML"},
	} {
		_, err := values.ParseFile("m/values.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want an error with %q", c.text, err, c.want)
		}
	}
}

func TestBadKeysOfAFileConcernOnlyThemselves(t *testing.T) {
	t.Parallel()
	got, err := values.ParseFile("m/values.yaml", []byte("foo:\n  a: 1\nbar: 5\n\"baz\": [1]\nquxEnabled: maybe\nfooEnabled: 1\nbarEnabled:\n{: }\n"))
	if err == nil {
		t.Fatalf("not YAML, but %+v", got)
	}
	got, err = values.ParseFile("m/values.yaml", []byte("foo:\n  a: 1\nbar: 5\n\"baz\" : [1]\nquxEnabled: maybe\nfooEnabled: 1\nbarEnabled:\n? on\n: text\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(doc(t, `{"foo":{"a":1}}`), got.Sections); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	texts := map[string]string{}
	for key, err := range got.Bad {
		texts[key] = err.Error()
	}
	want := map[string]string{
		"bar":        `m/values.yaml:3: "bar" is a number: a section must be a map, settings indented under the key`,
		"baz":        `m/values.yaml:4: "baz" is a list: a section must be a map, settings indented under the key`,
		"quxEnabled": `m/values.yaml:5: "quxEnabled" is a string: write true or false`,
		"fooEnabled": `m/values.yaml:6: "fooEnabled" is a number: write true or false`,
		"barEnabled": `m/values.yaml:7: "barEnabled" is null: write true or false`,
		"true":       `m/values.yaml: "true" is a string: a section must be a map, settings indented under the key`,
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadFileOfNoFileSaysNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "values.yaml")
	got, err := values.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values.File{Path: path}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadFileNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := values.ReadFile(dir); err == nil || !strings.Contains(err.Error(), dir+" is not a regular file: replace or remove it") {
		t.Errorf("of a directory: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(bad, []byte("a: ["), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := values.ReadFile(bad); err == nil || !strings.HasPrefix(err.Error(), bad+":1: ") {
		t.Errorf("of a bad text: %v", err)
	}
	if _, err := values.ReadFile(filepath.Join(bad, "values.yaml")); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("below a file: %v", err)
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		"", "global:\n  a: 1\nfooEnabled: \"true\"\n", "foo: 5\nbarEnabled: maybe\n", "- a", "a: [", "\x00", "---\na: {}\n---\nb: {}\n",
		"&a a: &b {c: *b}", "a: &x [*x]", "y: {n: 1}", "'quoted': 1", "? {a: b}\n: 1", "\ufeffa: {}", "a: {}\r\nb: 1\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := values.ParseFile("values.yaml", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "values.yaml") {
				t.Errorf("the error does not begin with the place: %v", err)
			}
			return
		}
		canonical(t, file.Sections)
		for key := range file.Bad {
			_, section := file.Sections[key]
			_, flag := file.Flags[key]
			if section || flag {
				t.Errorf("%q is bad and used", key)
			}
		}
	})
}

func TestTheLineOfABadKeyIsThatOfTheKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"web: 1":                           "values.yaml:1: ",
		"a:\n  web: {}\nweb : 1":           "values.yaml:3: ",
		"# web: 1\nwebs: {}\n'web': 1":     "values.yaml:3: ",
		"\"web\": text":                    "values.yaml:1: ",
		"{a: {}, web: 1}":                  "values.yaml: ", // the line is unknown
		"webEnabled: {}\nweb: 1 # comment": "values.yaml:2: ",
	} {
		f, err := values.ParseFile("values.yaml", []byte(text))
		if err != nil || f.Bad["web"] == nil || !strings.HasPrefix(f.Bad["web"].Error(), want+`"web" is a`) {
			t.Errorf("%q: %v, %v, want %s", text, f.Bad["web"], err, want)
		}
	}
}
