package operation_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/operation"
)

// raw returns text as JSON.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

func TestEveryOperationIsReadWithItsFields(t *testing.T) {
	t.Parallel()
	const cm = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`
	cases := map[string]struct {
		text string
		want operation.Operation
	}{
		"Create of a map": {
			`{"operation":"Create","object":` + cm + `}`,
			operation.Operation{Type: operation.Create, APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a", Object: raw(cm)},
		},
		"Create of a string of JSON": {
			`{"operation":"Create","object":"{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}"}`,
			operation.Operation{Type: operation.Create, Kind: "ConfigMap", Name: "a", Object: raw(`{"kind":"ConfigMap","metadata":{"name":"a"}}`)},
		},
		"CreateOrUpdate of a string of YAML": {
			"operation: CreateOrUpdate\nobject: |\n  kind: ConfigMap\n  metadata: {name: a}\n  data:\n    n: \"1\"\n    two: '2'\n",
			operation.Operation{Type: operation.CreateOrUpdate, Kind: "ConfigMap", Name: "a", Object: raw(`{"data":{"false":"1","two":"2"},"kind":"ConfigMap","metadata":{"name":"a"}}`)},
		},
		"CreateIfNotExists with a name to be made": {
			`{"operation":"CreateIfNotExists","object":{"kind":"Job","metadata":{"generateName":"a-"}}}`,
			operation.Operation{Type: operation.CreateIfNotExists, Kind: "Job", Object: raw(`{"kind":"Job","metadata":{"generateName":"a-"}}`)},
		},
		"what an object says goes before the operation's own": {
			`{"operation":"Create","kind":"Pod","name":"x","namespace":"y","subresource":"/status","object":` + cm + `}`,
			operation.Operation{Type: operation.Create, APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a", Object: raw(cm)},
		},
		"Delete": {
			`{"operation":"Delete","kind":"Pod","name":"a","namespace":"n","apiVersion":"v1"}`,
			operation.Operation{Type: operation.Delete, APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "a"},
		},
		"DeleteInBackground of a cluster's object": {
			`{"operation":"DeleteInBackground","kind":"Namespace","name":"a","subresource":"status"}`,
			operation.Operation{Type: operation.DeleteInBackground, Kind: "Namespace", Name: "a"},
		},
		"DeleteNonCascading": {
			`{"operation":"DeleteNonCascading","kind":"deploy","name":"a","namespace":null}`,
			operation.Operation{Type: operation.DeleteNonCascading, Kind: "deploy", Name: "a"},
		},
		"MergePatch of a map": {
			`{"operation":"MergePatch","kind":"Pod","name":"a","subresource":"/status","mergePatch":{"status":{"phase":null}},"ignoreMissingObject":true,"ignoreHookError":true}`,
			operation.Operation{Type: operation.MergePatch, Kind: "Pod", Name: "a", Subresource: "status", MergePatch: raw(`{"status":{"phase":null}}`), IgnoreMissingObject: true},
		},
		"CreateOrUpdate of a map of YAML with words for booleans": {
			"operation: CreateOrUpdate\nobject:\n  kind: ConfigMap\n  metadata: {name: on}\n  data: {debug: yes, country: NO, y: off}\n  immutable: true\n",
			operation.Operation{Type: operation.CreateOrUpdate, Kind: "ConfigMap", Name: "on", Object: raw(`{"data":{"country":"NO","debug":"yes","y":"off"},"immutable":true,"kind":"ConfigMap","metadata":{"name":"on"}}`)},
		},
		"Create of a string of YAML with words for booleans": {
			"operation: Create\nobject: |\n  kind: CronJob\n  metadata: {name: a}\n  spec: {suspend: yes}\n",
			operation.Operation{Type: operation.Create, Kind: "CronJob", Name: "a", Object: raw(`{"kind":"CronJob","metadata":{"name":"a"},"spec":{"suspend":true}}`)},
		},
		"MergePatch with a word for a boolean in a field of the operation": {
			"operation: MergePatch\nkind: Pod\nname: a\nmergePatch: {data: {debug: on}}\nignoreMissingObject: Yes\nignoreHookError: off\n",
			operation.Operation{Type: operation.MergePatch, Kind: "Pod", Name: "a", MergePatch: raw(`{"data":{"debug":"on"}}`), IgnoreMissingObject: true},
		},
		"MergePatch of a block of YAML": {
			"operation: MergePatch\nkind: Pod\nname: a\nmergePatch: |\n  spec:\n    count: 12345678901234567890\n    part: 0.5\n",
			operation.Operation{Type: operation.MergePatch, Kind: "Pod", Name: "a", MergePatch: raw(`{"spec":{"count":12345678901234567890,"part":0.5}}`)},
		},
		"JSONPatch whose first item has no value": {
			`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":null}]}`,
			operation.Operation{Type: operation.JSONPatch, Kind: "Pod", Name: "a", JSONPatch: raw(`[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":null}]`)},
		},
		"JSONPatch of a string": {
			`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":"[{op: move, from: /a, path: /b}]"}`,
			operation.Operation{Type: operation.JSONPatch, Kind: "Pod", Name: "a", JSONPatch: raw(`[{"from":"/a","op":"move","path":"/b"}]`)},
		},
		"JQPatch": {
			`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":".spec.n += 1"}`,
			operation.Operation{Type: operation.JQPatch, Kind: "Pod", Name: "a", JQFilter: ".spec.n += 1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := operation.Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]operation.Operation{c.want}, got); diff != "" {
				t.Error(diff)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var again []operation.Operation
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("written down and read again: %s", diff)
			}
		})
	}
}

func TestDocumentsComeInAnyOfTheFormsHooksWriteThem(t *testing.T) {
	t.Parallel()
	one := `{"operation":"Delete","kind":"Pod","name":"one"}`
	two := `{"operation":"Delete","kind":"Pod","name":"two"}`
	for name, text := range map[string]string{
		"JSON lines":                      one + "\n" + two + "\n",
		"JSON with nothing between":       one + two,
		"JSON over several lines":         strings.ReplaceAll(one, ",", ",\n\t") + strings.ReplaceAll(two, ",", ",\n\t"),
		"JSON with a byte order mark":     "\ufeff" + one + two,
		"YAML":                            "operation: Delete\nkind: Pod\nname: one\n---\noperation: Delete\nkind: Pod\nname: two\n",
		"YAML with a leading ---":         "---\noperation: Delete\nkind: Pod\nname: one\n---\noperation: Delete\nkind: Pod\nname: two",
		"YAML with empty documents":       "---\n---\n# nothing\n---\noperation: Delete\nkind: Pod\nname: one\n---\noperation: Delete\nkind: Pod\nname: two\n---\n",
		"YAML with ends of documents":     "operation: Delete\nkind: Pod\nname: one\n...\n---\noperation: Delete\nkind: Pod\nname: two\n...\n",
		"YAML beside its marks":           "--- {operation: Delete, kind: Pod, name: one}\n--- {operation: Delete, kind: Pod, name: two}\n",
		"JSON between marks":              one + "\n---\n" + two,
		"JSON as YAML takes it":           "---\n{operation: 'Delete', kind: Pod, name: one,}\n---\n{\"operation\": \"Delete\",\t\"kind\":\t\"Pod\", \"name\": \"two\",}\n",
		"keys given twice, the last wins": `{"operation":"Create","operation":"Delete","kind":"Pod","name":"one"}` + two,
		"an anchor":                       "operation: &o Delete\nkind: &k Pod\nname: one\n---\n" + two,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := operation.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			want := []operation.Operation{
				{Type: operation.Delete, Kind: "Pod", Name: "one"}, {Type: operation.Delete, Kind: "Pod", Name: "two"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFileOfNothingHoldsNoOperation(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n\t", "---\n", "# a comment\n", "null"} {
		got, err := operation.Parse([]byte(text))
		if err != nil || len(got) > 0 {
			t.Errorf("%q holds %v, %v", text, got, err)
		}
	}
}

func TestErrorsNameDocumentAndFieldAndAreAllTold(t *testing.T) {
	t.Parallel()
	const valid = `{"operation":"Delete","kind":"Pod","name":"a"}`
	types := "Create, CreateOrUpdate, CreateIfNotExists, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch, JQPatch"
	known := "operation, apiVersion, kind, namespace, name, subresource, object, mergePatch, jsonPatch, jqFilter, ignoreMissingObject, ignoreHookError"
	for text, want := range map[string]string{
		`[` + valid + `]`: "document 1: must be a map of one operation, not a list",
		valid + ` 5`:      "document 2: must be a map of one operation, not a number",
		valid + `{"operation":"Delete","kind":"Pod","name":"a","force":true}`: "document 2: force: is no known field, known are " + known,
		`{"operation":"Delete","Kind":"Pod","name":"a"}`:                      "document 1: Kind: is no known field, write kind\ndocument 1: kind: is required",
		`{}`: "document 1: operation: is required, one of " + types,
		`{"operation":"delete","kind":"Pod","name":"a"}`: `document 1: operation: is "delete", must be one of ` + types,
		`{"operation":1}`: "document 1: operation: must be a string, not a number",
		`{"operation":"Delete"}` + valid + `{"operation":"Delete","kind":"Pod"}`: "document 1: kind: is required\ndocument 1: name: is required\ndocument 3: name: is required",
		`{"operation":"Delete","kind":["Pod"],"name":1}`:                         "document 1: kind: must be a string, not a list\ndocument 1: name: must be a string, not a number",
		`{"operation":"Delete","kind":"Pod","name":"a/../b"}`:                    `document 1: name: is "a/../b", which may not contain '/'`,
		`{"operation":"Create"}`:                                                 "document 1: object: is required",
		`{"operation":"Create","object":[]}`:                                     "document 1: object: must be a map, or a string that contains a map, not a list",
		`{"operation":"Create","object":""}`:                                     "document 1: object: contains nothing",
		`{"operation":"Create","object":"{}{}"}`:                                 "document 1: object: contains 2 documents, must contain one",
		`{"operation":"Create","object":"a: [hunter2"}`:                          "document 1: object: not valid YAML, document 1: line 1: did not find expected ',' or ']'",
		`{"operation":"Create","object":{"metadata":{"name":"a"}}}`:              "document 1: object.kind: is required",
		`{"operation":"Create","object":{"kind":"Pod"}}`:                         "document 1: object.metadata: must be a map with a name, not null",
		`{"operation":"Create","object":{"kind":"Pod","metadata":{"name":5}}}`:   "document 1: object.metadata.name: must be a string, not a number",
		`{"operation":"Create","object":{"kind":"Pod","metadata":{}}}`:           "document 1: object.metadata.name: is required",
		`{"operation":"MergePatch","kind":"Pod","name":"a"}`:                     "document 1: mergePatch: is required",
		`{"operation":"MergePatch","kind":"Pod","name":"a","mergePatch":"text"}`: "document 1: mergePatch: must be a map, or a string that contains a map, not a string",
		`{"operation":"JSONPatch","kind":"Pod","name":"a"}`:                      "document 1: jsonPatch: is required",
		`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":{}}`:       "document 1: jsonPatch: must be a list, or a string that contains a list, not a map",
		`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"test","path":"/a","value":1},{"op":"add","path":"/a"},{"op":"put","path":"a"},{"op":"copy","path":"/a"},5]}`: "document 1: jsonPatch[1].value: is required for add\n" +
			"document 1: jsonPatch[2].op: is \"put\", must be one of add, remove, replace, move, copy, test\n" +
			"document 1: jsonPatch[3].from: is required\ndocument 1: jsonPatch[4]: must be a map with op and path, not a number",
		`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"remove","path":"a"}]}`:      `document 1: jsonPatch[0].path: is "a", must begin with a slash`,
		`{"operation":"JQPatch","kind":"Pod","name":"a"}`:                                                 "document 1: jqFilter: is required",
		`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":".a |"}`:                               "document 1: jqFilter: is no jq filter: unexpected EOF",
		`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":".a = \"\" \"b\""}`:                    "document 1: jqFilter: is no jq filter: unexpected token that ends at byte 11",
		`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":".a = \"\\q\""}`:                       "document 1: jqFilter: is no jq filter: invalid escape sequence that ends at byte 8",
		`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":".a = \"b"}`:                           "document 1: jqFilter: is no jq filter: unterminated string literal",
		`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":"nothing(1)"}`:                         "document 1: jqFilter: jq filter does not compile: function not defined: nothing/1",
		`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":"` + strings.Repeat("(", 1<<20) + `"}`: "document 1: jqFilter: jq filter has 1048576 bytes, more than the limit of 65536 bytes",
		`{"operation":"Delete","kind":"Pod","name":"a","ignoreHookError":"true"}`:                         "document 1: ignoreHookError: must be true or false, not a string",
		valid + `{"operation":`: "neither JSON, document 2 ends in the middle, nor YAML, document 2: did not find expected <document start>",
		"a: b: c\n":             "not valid YAML, document 1: mapping values are not allowed in this context",
		"a: 1\n---\nb: .nan\n":  "not valid YAML, document 2: .nan and .inf are no JSON numbers; quote them or leave them out",
	} {
		_, err := operation.Parse([]byte(text))
		got := "no error"
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}

func TestErrorsOfAFileTellNothingOfItsSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, text := range []string{
		`{"operation":"JQPatch","kind":"Secret","name":"a","jqFilter":".data.password = \"\" \"` + secret + `\""}`,
		`{"operation":"JQPatch","kind":"Secret","name":"a","jqFilter":".data.password = . ` + secret + `"}`,
		`{"operation":"JQPatch","kind":"Secret","name":"a","jqFilter":".data.password = \"` + secret + `"}`,
		`{"operation":"Create","object":{"kind":"Secret","stringData":{"password":"` + secret + `"}}}`,
		`{"operation":"Create","object":"kind: Secret\nstringData: {password: ` + secret + `"}`,
		`{"operation":"Create","object":"` + secret + `"}`,
		`{"operation":"MergePatch","kind":"Secret","name":"a","mergePatch":"` + secret + `"}`,
		`{"operation":"JSONPatch","kind":"Secret","name":"a","jsonPatch":[{"op":"add","value":"` + secret + `"}]}`,
		`{"operation":"JSONPatch","kind":"Secret","name":"a","jsonPatch":["` + secret + `"]}`,
		`{"operation":"JQPatch","kind":"Secret","name":"a","jqFilter":".data.password = \"` + secret + `\" |"}`,
		"operation: Create\nobject: *" + secret + "\n",
		"operation: Create\nobject: !!int " + secret + "\n",
		"operation: Create\nobject: {? [" + secret + "] : 1}\n",
		"operation: Create\nobject: {password: " + secret + "\n",
		`{"operation":"Create","object":{"password":"` + secret + `"`,
	} {
		_, err := operation.Parse([]byte(text))
		if err == nil {
			t.Errorf("%s is read", text)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

func TestManyProblemsAreCutShort(t *testing.T) {
	t.Parallel()
	_, err := operation.Parse([]byte(strings.Repeat(`{"operation":"Delete","kind":"Pod"}`, 100)))
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "and 80 more") {
		t.Error(err)
	}
}

func TestAliasesThatStandForTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("operation: Create\nobject:\n  a: &a " + strings.Repeat("x", 1<<20) + "\n")
	for range 40 {
		text.WriteString("  b: *a\n")
	}
	text.WriteString("  list:\n" + strings.Repeat("  - *a\n", 40))
	_, err := operation.Parse([]byte(text.String()))
	if err == nil || !strings.Contains(err.Error(), "expands to more than the limit of 16 MiB") {
		t.Errorf("%.200v", err)
	}
}

func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/seeds/*")
	if err != nil || len(seeds) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, seed := range seeds {
		text, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		operations, err := operation.Parse(text)
		if err != nil {
			if len(operations) > 0 {
				t.Fatal("operations came with an error")
			}
			return
		}
		written, err := json.Marshal(operations)
		if err != nil {
			t.Fatal(err)
		}
		var again []operation.Operation
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatal(err)
		}
		rewritten, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(written) != string(rewritten) {
			t.Fatalf("%s\n%s", written, rewritten)
		}
	})
}
