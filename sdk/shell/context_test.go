package shell_test

import (
	"strings"
	"testing"
)

const twoElements = `[
	{"binding":"other"},
	{
		"binding":"pods","type":"Event","watchEvent":"Modified","yes":true,"no":false,"nothing":null,"text":"a \"b\"  c",
		"object":{"metadata":{"name":"web-0","annotations":{"example.com/a.b":"dots"},"my-label":"dashes"},"0":"zero"},
		"snapshots":{"my pods":[{"filterResult":"first"},{"filterResult":{"name":"second"}}]}
	}
]`

func TestContextIsReadByPathsAndFilters(t *testing.T) {
	t.Parallel()
	var calls, wants []string
	for _, test := range []struct{ call, want string }{
		{"context::jq -r .binding", "pods"},
		{"context::jq .binding", `"pods"`},
		{"context::jq -cr '.snapshots[] | map(.filterResult) | .[]'", "first\n{\"name\":\"second\"}"},
		{"context::jq -r --arg of metadata --argjson n 1 '.object[$of].name, $n # and a comment'", "web-0\n1"},
		{"context::jq -r '.binding' --arg late x", "pods"},
		{"context::jq -n -r 'input.binding'", "pods"},
		{"context::jq -s -r '.[0].binding'", "pods"},
		{"context::jq -r 'def twice: . + .; .binding | twice'", "podspods"},
		{"context::jq -e .nothing || echo $?", "null\n1"},
		{"context::jq -r .text", `a "b"  c`},
		{"context::global::jq -r '.[0].binding'", "other"},
		{"context::get binding", "pods"},
		{"context::get text", `a "b"  c`},
		{"context::get .binding", "pods"},
		{"context::get object.metadata.name", "web-0"},
		{"context::get object.metadata.my-label", "dashes"},
		{`context::get 'object.metadata.annotations."example.com/a.b"'`, "dots"},
		{`context::get "object.metadata.annotations.'example.com/a.b'"`, "dots"},
		{`context::get 'object.metadata.annotations["example.com/a.b"]'`, "dots"},
		{`context::get 'snapshots."my pods".1.filterResult.name'`, "second"},
		{`context::get 'snapshots["my pods"][0].filterResult'`, "first"},
		{"context::get object.0", "zero"},
		{"context::get none.such", "null"},
		{"context::get 'none.such // \"default\"'", "default"},
		{"context::get --required binding", "pods"},
		{"context::has binding && echo has", "has"},
		{"context::has nothing && echo has", "has"},
		{`context::has 'snapshots."my pods".1' && echo has`, "has"},
		{`context::has 'snapshots."my pods".2' || echo not`, "not"},
		{"context::has none.such || echo not", "not"},
		{"context::has text.deeper || echo not", "not"},
		{"context::is_true yes && echo is", "is"},
		{"context::is_true text || echo not", "not"},
		{"context::is_false no && echo is", "is"},
		{"context::is_false nothing || echo not", "not"},
		{"context::is_null nothing && echo is", "is"},
		{"context::is_null none.such && echo is", "is"},
		{"context::is_null no || echo not", "not"},
	} {
		calls, wants = append(calls, test.call), append(wants, test.want)
	}
	for h := range each(t) {
		h.files = map[string]string{"BINDING_CONTEXT_PATH": twoElements}
		h.wantEach(t, calls, wants)
	}
}

func TestFilterThatDoesNotReadALargeContextSucceeds(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		large := strings.Repeat("x", 1<<20) // more than a pipe can buffer
		h.files = map[string]string{"BINDING_CONTEXT_PATH": `[{"binding":"pods","type":"Event","watchEvent":"Added","text":"` + large + `"}]`}
		h.wantEach(t, []string{`context::jq -n -r '"not read"'`, "context::jq -n -r 'input.text | length'"}, []string{"not read", "1048576"})
	}
}

func TestRequiredContextThatIsMissingEndsTheHook(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.files = map[string]string{"BINDING_CONTEXT_PATH": twoElements}
		for call, message := range map[string]string{
			"context::get --required none.such": "'none.such'",
			"context::get 'snapshots.my pods'":  "pods", // neither a path nor a jq filter
		} {
			h.script = "__main__() { x=$(" + call + "); echo on; }\nhook::run"
			if r := h.run(t); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, message) {
				t.Errorf("%s: exit status %d, printed %q, said:\n%s", call, r.code, r.stdout, r.stderr)
			}
		}
	}
}

// A hook may overwrite the file with its binding context, so the framework reads the file again in each call.
func TestContextIsReadAgainEachTime(t *testing.T) {
	t.Parallel()
	for h := range each(t) {
		h.files = map[string]string{"BINDING_CONTEXT_PATH": `[{"binding":"a","n":1}]`}
		h.script = `__main__() { echo '[{"n":2}]' >"$BINDING_CONTEXT_PATH"; context::get n; }` + "\nhook::run"
		h.want(t, "2\n")
	}
}

func TestAskingForAValueStartsOneJq(t *testing.T) {
	t.Parallel()
	h := hook{
		files: map[string]string{"BINDING_CONTEXT_PATH": twoElements, "VALUES_PATH": `{"web":{}}`},
		script: `
			count=$(mktemp)
			jq() { echo >>"$count"; command jq "$@"; }
			expect() {
				local want=$1 got
				shift
				: >"$count"
				"$@" >/dev/null
				got=$(wc -l <"$count")
				((got == want)) || echo "$* started jq $got times, want $want"
			}
			main() {
				expect 1 context::jq -r --arg a b '.binding'
				expect 1 context::get binding
				expect 1 context::is_true yes
				expect 1 values::get web
				expect 0 values::set web.name text
				expect 0 values::set web.size 5
				expect 0 kubernetes::patch_jq ns pod/a .x
				expect 0 kubernetes::delete ns pod/a
			}
			__main__() { :; }
			__on_kubernetes::pods() { main; }
			hook::run`,
	}
	h.jq = jqs(t)["shipped"]
	h.want(t, "")
}
