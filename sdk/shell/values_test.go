package shell_test

import (
	"encoding/json"
	"strings"
	"testing"

	"addon-operator/internal/values"
)

const (
	someValues = `{
		"global":{"modules":{"https":{"mode":"On"}}},
		"web":{"replicas":3,"on":true,"off":false,"nothing":null,"address-pool":"p","hosts":["a","b"],
			"rows":[{"name":"one","v":1},{"name":"two","v":2}],"labels":{"a.b/c":"x"}}
	}`
	someConfig = `{"global":{},"web":{"on":false,"replicas":5}}`
)

func TestValuesAreReadByPathsAndFilters(t *testing.T) {
	t.Parallel()
	var calls, wants []string
	for _, test := range []struct{ call, want string }{
		{"values::get web.replicas", "3"},
		{"values::get --config web.replicas", "5"},
		{"values::get --config --required web.replicas", "5"},
		{"values::get --required --config web.replicas", "5"},
		{"values::get global.modules.https.mode", "On"},
		{"values::get web.address-pool", "p"},
		{`values::get 'web.labels."a.b/c"'`, "x"},
		{"values::get web.hosts.1", "b"},
		{"values::get 'web.hosts[]'", "a\nb"},
		{"values::get web.none", "null"},
		{"values::get | jq -c keys", `["global","web"]`},
		{"values::get --config | jq -c .web", `{"on":false,"replicas":5}`},
		{"values::jq -r .web.replicas", "3"},
		{"values::jq --config -r .web.replicas", "5"},
		{`values::jq "" -r .web.replicas`, "3"},
		{"values::has web.replicas && echo has", "has"},
		{"values::has web.nothing && echo has", "has"},
		{"values::has web.none || echo not", "not"},
		{"values::has --config web.hosts || echo not", "not"},
		{"values::has web.hosts.1 && echo has", "has"},
		{"values::has web.hosts.2 || echo not", "not"},
		{"values::is_true web.on && echo is", "is"},
		{"values::is_true --config web.on || echo not", "not"},
		{"values::is_false web.off && echo is", "is"},
		{"values::is_false web.nothing || echo not", "not"},
		{"values::array_has web.hosts a && echo has", "has"},
		{"values::array_has web.hosts z || echo not", "not"},
		{"values::array_has web.replicas 3 || echo not", "not"},
		{"values::get_first_defined web.none web.replicas web.on", "3"},
		{"values::get_first_defined --config web.hosts web.replicas", "5"},
		{"values::get_first_defined web.none web.none2 || echo none", "none"},
		{"values::require_in_config web.replicas && echo there", "there"},
	} {
		calls, wants = append(calls, test.call), append(wants, test.want)
	}
	for h := range each(t) {
		h.files = map[string]string{
			"BINDING_CONTEXT_PATH": twoElements, "VALUES_PATH": someValues, "CONFIG_VALUES_PATH": someConfig,
		}
		h.wantEach(t, calls, wants)
	}
}

func TestChangesOfValuesBecomeAPatch(t *testing.T) {
	t.Parallel()
	var calls, patches []string
	for _, test := range []struct{ call, patch string }{
		{"values::set web.name text", `{"op":"add","path":"/web/name","value":"text"}`},
		{"values::set web.name 'some  more text'", `{"op":"add","path":"/web/name","value":"some  more text"}`},
		{`values::set web.name $'a "b" \\ \t\n\x01 ü'`, `{"op":"add","path":"/web/name","value":"a \"b\" \\ \t\n\u0001 ü"}`},
		{"values::set web.name ' padded '", `{"op":"add","path":"/web/name","value":" padded "}`},
		{"values::set web.name '[no json'", `{"op":"add","path":"/web/name","value":"[no json"}`},
		{"values::set web.name '*'", `{"op":"add","path":"/web/name","value":"*"}`},
		{"values::set web.n 5", `{"op":"add","path":"/web/n","value":5}`},
		{"values::set web.n -1.5e3", `{"op":"add","path":"/web/n","value":-1500}`},
		{"values::set web.n 1.2.3", `{"op":"add","path":"/web/n","value":"1.2.3"}`},
		{"values::set web.n 007", `{"op":"add","path":"/web/n","value":"007"}`},
		{"values::set web.n true", `{"op":"add","path":"/web/n","value":true}`},
		{"values::set web.n null", `{"op":"add","path":"/web/n","value":null}`},
		{"values::set web.n nan", `{"op":"add","path":"/web/n","value":"nan"}`},
		{"values::set web.n ''", `{"op":"add","path":"/web/n","value":null}`},
		{`values::set web.n '""'`, `{"op":"add","path":"/web/n","value":""}`},
		{`values::set web.n '"5"'`, `{"op":"add","path":"/web/n","value":"5"}`},
		{`values::set web.o '{"a": [1, "two"]}'`, `{"op":"add","path":"/web/o","value":{"a":[1,"two"]}}`},
		{"values::set web.o $' {\\n\"a\": 1}\\n'", `{"op":"add","path":"/web/o","value":{"a":1}}`},
		{"values::set web.hosts.- c", `{"op":"add","path":"/web/hosts/-","value":"c"}`},
		{`values::set 'web.labels."a.b/c~d"' x`, `{"op":"add","path":"/web/labels/a.b~1c~0d","value":"x"}`},
		{"values::set fooEnabled true", `{"op":"add","path":"/fooEnabled","value":true}`},
		{"values::unset web.replicas", `{"op":"remove","path":"/web/replicas"}`},
		{"values::unset web.none", ""},
		{"values::json_patch test /web/replicas 3", `{"op":"test","path":"/web/replicas","value":3}`},
		{
			`values::store::replace_row_by_key web.rows name '{"name":"two","v":9}'`,
			`{"op":"remove","path":"/web/rows/1"}{"op":"add","path":"/web/rows/1","value":{"name":"two","v":9}}`,
		},
		{
			`values::store::replace_row_by_key web.rows name '{"name":"three"}'`,
			`{"op":"add","path":"/web/rows/-","value":{"name":"three"}}`,
		},
		{`values::store::unset_row_by_key web.rows name '{"name":"one"}'`, `{"op":"remove","path":"/web/rows/0"}`},
		{`values::store::unset_row_by_key web.rows name '{"name":"none"}'`, ""},
		{"values::set web.a 1; (values::set web.b 2)", `{"op":"add","path":"/web/a","value":1}{"op":"add","path":"/web/b","value":2}`},
	} {
		calls, patches = append(calls, test.call), append(patches, test.patch)
	}
	for h := range each(t) {
		h.files = map[string]string{"VALUES_PATH": someValues, "CONFIG_VALUES_PATH": someConfig}
		h.wantWritten(t, "VALUES_JSON_PATCH_PATH", calls, patches)
	}
}

func TestConfigValuesHaveAPatchOfTheirOwn(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.files = map[string]string{"VALUES_PATH": someValues, "CONFIG_VALUES_PATH": someConfig}
		h.script = `
			values::set --config web.a 1
			values::unset --config web.hosts
			values::unset --config web.on
			values::store::replace_row_by_key --config web.rows name '{"name":"one"}'`
		r := h.want(t, "")
		sameJSON(t, `{"op":"add","path":"/web/a","value":1}{"op":"remove","path":"/web/on"}
			{"op":"add","path":"/web/rows/-","value":{"name":"one"}}`, r.files["CONFIG_VALUES_JSON_PATCH_PATH"])
		if patch := r.files["VALUES_JSON_PATCH_PATH"]; patch != "" {
			t.Errorf("the other patch is not empty: %s", patch)
		}
	}
}

func TestReplacedRowStaysTheOnlyOneOfItsKey(t *testing.T) {
	t.Parallel()
	base := values.Values{}
	if err := json.Unmarshal([]byte(someValues), &base); err != nil {
		t.Fatal(err)
	}
	for h := range each(t) {
		h.script = `
			values::store::replace_row_by_key web.rows name "{\"name\":\"one\",\"v\":$V}"
			values::store::replace_row_by_key web.rows name "{\"name\":\"two\",\"v\":$V}"`
		merged := base
		var saved []values.Saved
		for _, v := range []string{"5", "6", "6"} {
			text, err := json.Marshal(merged)
			if err != nil {
				t.Fatal(err)
			}
			h.files, h.env = map[string]string{"VALUES_PATH": string(text)}, []string{"V=" + v}
			ops, err := values.ParsePatch([]byte(h.want(t, "").files["VALUES_JSON_PATCH_PATH"]))
			if err != nil {
				t.Fatal(err)
			}
			saved = values.MergePatches(saved, ops, "hook")
			merged, _ = values.Replay(base, saved)
			section, _ := merged["web"].(map[string]any)
			rows, err := json.Marshal(section["rows"])
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, `[{"name":"one","v":`+v+`},{"name":"two","v":`+v+`}]`, string(rows))
		}
	}
}

func TestBigValueIsSet(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.script = `
			text=$(printf '%0300000d' 0)
			values::set web.text "x$text"
			values::set web.list "[\"$text\"]"`
		zeros := strings.Repeat("0", 300000)
		sameJSON(t, `{"op":"add","path":"/web/text","value":"x`+zeros+`"}{"op":"add","path":"/web/list","value":["`+zeros+`"]}`,
			h.want(t, "").files["VALUES_JSON_PATCH_PATH"])
	}
}

func TestValuesThatAreMissedEndTheHook(t *testing.T) {
	t.Parallel()
	for call, message := range map[string]string{
		"x=$(values::get --required web.none)": "'web.none'",
		"values::require_in_config web.hosts":  "web.hosts is required",
		"values::set 'web.a b' 1":              "is not a path",
		"values::set '' 1":                     "is not a path",
		"values::has 'a | b'":                  "is not a path",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			for h := range each(t) {
				h.files = map[string]string{"VALUES_PATH": someValues, "CONFIG_VALUES_PATH": someConfig}
				h.script = call + "\necho on"
				if r := h.run(t); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, message) {
					t.Errorf("exit status %d, printed %q, said:\n%s", r.code, r.stdout, r.stderr)
				}
			}
		})
	}
}
