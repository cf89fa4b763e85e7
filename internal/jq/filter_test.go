package jq_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/jq"
	"addon-operator/internal/tree"
)

// input returns text, which is JSON, as an Input.
func input(text string) *jq.Input { return jq.NewInput([]byte(text)) }

func TestFilterOutputsBecomeOneResult(t *testing.T) {
	t.Parallel()
	const object = `{"spec":{"replicas":3,"big":9007199254740993,"huge":123456789012345678901234567890,"ratio":1.50,"list":[1,2]},"a<b":"ä&"}`
	for _, test := range []struct{ program, want string }{
		{`empty`, `null`},
		{`null`, `null`},
		{`.spec.replicas`, `3`},
		{`.spec.replicas == 3`, `true`},
		{`.spec.big`, `9007199254740993`},
		{`.spec.big + 1`, `9007199254740994`},
		{`.spec.huge`, `123456789012345678901234567890`},
		{`.spec.ratio`, `1.50`},
		{`.spec.list[]`, `[1,2]`},
		{`.spec.list[], .spec.replicas`, `[1,2,3]`},
		{`select(.spec.replicas > 5)`, `null`},
		{`{b: 1, a: .["a<b"]}`, `{"a":"ä&","b":1}`},
		{`.spec | keys | length`, `5`},
		{`.spec.list | map(. * 2)`, `[2,4]`},
		{`1, halt`, `1`},
		{`env | length`, `0`},
		{`$ENV | length`, `0`},
		{`try error("x") catch .`, `"x"`},
	} {
		filter, err := jq.Compile(test.program)
		if err != nil {
			t.Errorf("%s: %v", test.program, err)
			continue
		}
		got, err := filter.Apply(t.Context(), input(object))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.program, got, err, test.want)
		}
	}
}

func TestFilterErrorsNameTheProgram(t *testing.T) {
	t.Parallel()
	for _, program := range []string{`.a |`, `nosuch(1)`, `input`, `include "x"; .`, `$undefined`} {
		if _, err := jq.Compile(program); err == nil || !strings.Contains(err.Error(), "jq filter") {
			t.Errorf("%s: %v", program, err)
		}
	}
	for _, program := range []string{`.a.b`, `error("no")`, `range(infinite)`, `"x" | halt_error`} {
		filter, err := jq.Compile(program)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := filter.Apply(t.Context(), input(`{"a":1}`)); err == nil || !strings.Contains(err.Error(), "jq filter") {
			t.Errorf("%s: %s, %v", program, got, err)
		}
	}
}

func TestNestedNonsenseDoesNotOverflow(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("(", 60_000) + "." + strings.Repeat(")", 60_000)
	if _, err := jq.Compile(deep); err == nil || !strings.Contains(err.Error(), "more than the limit") {
		t.Errorf("a filter of %d bytes: %v, want it refused for its length", len(deep), err)
	}
	if _, err := jq.Compile(deep[45_000 : len(deep)-45_000]); err != nil {
		t.Errorf("a filter nested 15,000 deep: %v", err)
	}
}

func TestResultsThatWouldFillTheMemoryAreRefused(t *testing.T) {
	t.Parallel()
	if withRace {
		t.Skip("the race detector ends helper processes that reach their limit")
	}
	for program, want := range map[string]string{
		`reduce range(200) as $_ (1; [., .])`:          "more than 16777216 bytes",
		`reduce range(200) as $_ (1; {a: ., b: .})`:    "more than 16777216 bytes",
		`reduce range(25) as $_ ("a"; . + .)`:          "more than 16777216 bytes",
		`"a" as $x | {($x * 9000000): ($x * 9000000)}`: "more than 16777216 bytes",
		`reduce range(20000) as $_ (1; [.])`:           "deeper than 10000 levels",
	} {
		filter, err := jq.Compile(program)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := filter.Apply(t.Context(), input("null")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d bytes, %v, want an error with %q", program, len(got), err, want)
		}
	}
	filter, err := jq.Compile(`reduce range(23) as $_ ("a"; . + .), [range(1000)]`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := filter.Apply(t.Context(), input("null")); err != nil || len(got) < 8<<20 {
		t.Errorf("a result of 8 MiB: %d bytes, %v", len(got), err)
	}
}

func TestNoFilterGivesNoResult(t *testing.T) {
	t.Parallel()
	filter, err := jq.Compile("")
	if filter != nil || err != nil || filter.String() != "" {
		t.Errorf("an empty program is %v, %v", filter, err)
	}
	if got, err := filter.Apply(t.Context(), input(`{}`)); got != nil || err != nil {
		t.Errorf("it gives %s, %v", got, err)
	}
}

func TestFiltersLeaveTheirInputAsItIs(t *testing.T) {
	t.Parallel()
	const object = `{"a":[3,1,2],"b":{"c":1}}`
	in := input(object)
	for _, program := range []string{`del(.a)`, `.b.c = 2`, `.a |= sort`, `.a[0] += 1`, `walk(if type == "number" then . + 1 else . end)`} {
		filter, err := jq.CompileOwn(program) // always runs in this process
		if err != nil {
			t.Fatal(err)
		}
		if _, err := filter.Apply(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		identity, err := jq.Compile(`.`)
		if err != nil {
			t.Fatal(err)
		}
		after, err := identity.Apply(t.Context(), in)
		if diff := cmp.Diff(object, string(after)); diff != "" || err != nil {
			t.Errorf("%s changed it: %s, %v", program, diff, err)
		}
	}
}

// FuzzFilter applies plain programs. Each must end within its limits, and return JSON or an error. FuzzFilter does not
// apply other programs, because they run in helpers, whose memory and CPU time are limited.
func FuzzFilter(f *testing.F) {
	f.Add(`.a[]`, `{"a":[1,2]}`)
	f.Add(`[.a[]?, .b] | map(select(. != null)) | {c: .}`, `{"a":1e400}`)
	f.Add(`.`, `"\ud800"`)
	f.Add(`[., .] | [., .] | .[0].a`, `[{}]`)
	f.Fuzz(func(t *testing.T, program, object string) {
		filter, err := jq.Compile(program)
		if err != nil {
			return
		}
		if _, err := tree.Decode([]byte(object)); err != nil {
			return
		}
		result, ran, err := jq.ApplyHere(t.Context(), filter, input(object))
		if ran && err == nil && !json.Valid(result) {
			t.Errorf("%q on %q gives %q, which is not JSON", program, object, result)
		}
	})
}
