package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"pgregory.net/rapid"
)

// compiled returns the filter of a program.
func compiled(t *testing.T, program string) *Filter {
	t.Helper()
	f, err := Compile(program)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return f
}

func TestProgramsThatOnlySelectPartsOfTheirInputArePlain(t *testing.T) {
	t.Parallel()
	for program, iterations := range map[string]int{
		`.`: 0, `.a.b`: 0, `.["a b"]`: 0, `."a b"`: 0, `.a[0]`: 0, `.a[-1]`: 0, `.a?`: 0, `null`: 0, `"text"`: 0, `1`: 0, `{}`: 0, `[]`: 0,
		`.a[]`: 1, `.a[].b[]`: 2, `.[]?`: 1, `[.a[] | .b]`: 1, `{a: .a, "b": .b, "c d": .c}`: 0, `.a // "none"`: 0, `.a, .b`: 0,
		`.a and (.b or .c)`: 0, `.a == 1`: 0, `"x" != .a`: 0, `.a > 1`: 0, `.a <= null`: 0, `.a == true`: 0,
		`if .a then .b elif .c then .d else .e end`: 0, `if .a == 1 then .b end`: 0, `(.a | .b).c`: 0,
		`map(.a)`: 1, `map(select(.a == "x"))`: 1, `any(.a)`: 1, `any(.[]; .a)`: 2, `all`: 1, `map(map(.a))`: 2,
		`.a | length`: 0, `.a | type`: 0, `has("a")`: 0, `first(.a[])`: 1, `.a | startswith("x")`: 0, `.a | not`: 0, `empty`: 0, `.a | objects`: 0, `isempty(.a)`: 0,
	} {
		if got := compiled(t, program).plain; !got.is || got.iterations != iterations {
			t.Errorf("%s: plain %t with %d iterations, want %d", program, got.is, got.iterations, iterations)
		}
	}
}

func TestProgramsThatCanGrowOrLoopAreNotPlain(t *testing.T) {
	t.Parallel()
	for _, program := range []string{
		`.a + .b`, `.a * 2`, `.a - 1`, `.a / .b`, `.a % 2`, `-(.a)`, `-.a`, `.a == .b`, `[.a] == [.b]`, `.a == [1]`, `.a == {}`, `.a == "\(.b)"`, `.a < (1 | . + 1)`,
		`def f: .a; f`, `.a | (def f: .; f)`, `. as $x | $x`, `. as [$x] | $x`, `$ENV`, `env`, `reduce .[] as $x (0; $x)`, `foreach .[] as $x (0; $x)`, `label $out | .a`,
		`.a = 1`, `.a |= 1`, `.a += 1`, `.a //= 1`, `.a[1:2]`, `.a[.b]`, `.[.a, .b]`, `.["a\(.b)"]`, `.a["\(.b)"]`, `"\(.a)"`, `{(.a): 1}`, `{"a\(.b)": 1}`, `{$x: 1}`,
		`keys`, `sort`, `add`, `range(3)`, `recurse`, `..`, `tojson`, `@base64`, `@json "\(.a)"`, `test("a")`, `try error("x")`, `error("x")`, `limit(1; .a)`,
		`map(.a + 1)`, `select(.a | keys)`, `any(.a; keys)`, `[.a | keys]`, `{a: keys}`, `{a: (.b + 1)}`, `.a // keys`, `.a, keys`, `keys | .a`,
		`if keys then 1 else 2 end`, `if .a then keys else 2 end`, `if .a then 1 else keys end`, `if .a then 1 elif keys then 2 else 3 end`, `if .a then 1 elif .b then keys else 3 end`,
		`map(.a; .b)`, `select`, `(keys)`, `.a[keys]`, `first`, `?//1`, `import "x" as x; .`,
	} {
		query, err := gojq.Parse(program)
		if err != nil {
			continue
		}
		if classify(query).is {
			t.Errorf("%s is plain", program)
		}
	}
}

func TestAPlainProgramRunsInThisProcessUpToTheLimitOfItsInput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		plain plain
		bytes int
		fits  bool
	}{
		{plain{is: true}, maxIteration, true},
		{plain{is: true}, maxIteration + 1, false},
		{plain{is: true, iterations: 3}, maxIteration / 4, true},
		{plain{is: true, iterations: 3}, maxIteration/4 + 1, false},
		{plain{}, 0, false},
		{plain{iterations: 1}, 1, false},
	} {
		if got := test.plain.fits(test.bytes); got != test.fits {
			t.Errorf("%+v on %d bytes fits: %t", test.plain, test.bytes, got)
		}
	}
}

func TestTheStepsOfAPlainProgramAreCounted(t *testing.T) {
	t.Parallel()
	b := newBudget(t.Context())
	for range maxSteps {
		if b.Done() != nil || b.Err() != nil {
			t.Fatalf("the budget ends with %d steps left: %v", b.left, b.Err())
		}
	}
	select {
	case <-b.Done():
	default:
		t.Error("the budget does not end")
	}
	if err := b.Err(); !errors.Is(err, errSpent) {
		t.Errorf("the budget ends with %v", err)
	}
}

func TestABudgetEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"canceled": nil, "time is up": errSpent} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := newBudget(ctx)
		if err := b.Err(); err != nil {
			t.Errorf("%s: %v before the end", name, err)
		}
		cancel(cause)
		steps := 1
		for ; b.Done() == nil; steps++ {
			if steps > 256 {
				t.Fatalf("%s: the budget goes on after %d steps", name, steps)
			}
		}
		want := context.Canceled
		if cause != nil {
			want = cause
		}
		if err := b.Err(); !errors.Is(err, want) || b.left < maxSteps/2 {
			t.Errorf("%s: %v with %d steps left", name, err, b.left)
		}
	}
}

func TestAProgramWithTooManyStepsIsNotFinishedHere(t *testing.T) {
	t.Parallel()
	list := NewInput([]byte("[" + strings.Repeat("1,", maxSteps) + "1]"))
	f := compiled(t, `map(select(. == 2))`)
	tree, err := list.decoded()
	if err != nil {
		t.Fatal(err)
	}
	if result, err := f.here(t.Context(), tree); result != nil || !errors.Is(err, errSpent) {
		t.Errorf("%s, %v", result, err)
	}
	own, err := CompileOwn(`map(select(. == 2))`)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := own.Apply(t.Context(), list); string(result) != "[]" || err != nil {
		t.Errorf("a program of the operator: %s, %v", result, err)
	}
}

func TestAnInterruptedProgramHasNotFailed(t *testing.T) {
	t.Parallel()
	own, err := CompileOwn(`[range(1000000)] | length`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := own.Apply(ctx, NewInput([]byte("null")))
	if failure := (*FilterError)(nil); result != nil || !errors.Is(err, context.Canceled) || errors.As(err, &failure) {
		t.Errorf("%s, %v", result, err)
	}
	endless, stop := context.WithTimeoutCause(t.Context(), time.Nanosecond, errLong)
	defer stop()
	<-endless.Done()
	if _, err := evaluate(endless, own.code, nil); !errors.Is(err, errLong) || err.Error() != `jq filter "": takes longer than 1m0s` {
		t.Errorf("a program that takes too long: %v", err)
	}
}

func TestTheOutputsOfAProgramAreLimited(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		`range(10000)`: "", `range(10001)`: "more than 10000 outputs", `[range(10001)]`: "",
	} {
		own, err := CompileOwn(program)
		if err != nil {
			t.Fatal(err)
		}
		result, err := own.Apply(t.Context(), NewInput([]byte("null")))
		if want == "" {
			if err != nil || !json.Valid(result) {
				t.Errorf("%s: %.20s, %v", program, result, err)
			}
			continue
		}
		failure := (*FilterError)(nil)
		if !errors.As(err, &failure) || failure.Reason != want || failure.Public != want || !failure.Bound {
			t.Errorf("%s: %.20s, %v", program, result, err)
		}
		if got := err.Error(); got != `jq filter "range(10001)": more than 10000 outputs` {
			t.Errorf("the error is %s", got)
		}
	}
}

func TestThePublicReasonOfAFailureQuotesNoValue(t *testing.T) {
	t.Parallel()
	const secret = `{"password":"hunter2","list":["hunter2",4711],"n":4711}`
	for program, want := range map[string]string{
		`.password | keys`:                  "keys cannot be applied to: string …",
		`.list.a`:                           "expected an object but got: array …",
		`.n | .[]`:                          "cannot iterate over: number …",
		`error(.password)`:                  "it ends with an error that the program throws",
		`error({a: .password})`:             "it ends with an error that the program throws",
		`.password | tonumber`:              "",
		`.password + .n`:                    "cannot add: string …",
		`.password | test("(")`:             "",
		`.password | halt_error`:            "",
		`.password | fromjson`:              "",
		`.password | strptime("%Y-%m-%dT")`: "",
	} {
		own, err := CompileOwn(program)
		if err != nil {
			t.Fatal(err)
		}
		_, err = own.Apply(t.Context(), NewInput([]byte(secret)))
		failure := (*FilterError)(nil)
		if !errors.As(err, &failure) || failure.Bound {
			t.Errorf("%s: %v", program, err)
			continue
		}
		if strings.Contains(failure.Public, "hunter") || strings.Contains(failure.Public, "4711") || failure.Public == "" {
			t.Errorf("%s: the public reason is %q", program, failure.Public)
		}
		if want != "" && failure.Public != want {
			t.Errorf("%s: the public reason is %q, want %q", program, failure.Public, want)
		}
	}
}

func TestAnInputThatIsNoJSONIsNoFailureOfTheFilter(t *testing.T) {
	t.Parallel()
	in := NewInput([]byte(`{"a":`))
	for range 2 {
		result, err := compiled(t, `.a`).Apply(t.Context(), in)
		if failure := (*FilterError)(nil); result != nil || err == nil || errors.As(err, &failure) || !strings.HasPrefix(err.Error(), "read the input of a jq filter: ") {
			t.Errorf("%s, %v", result, err)
		}
	}
}

func TestTheSizeOfAResultIsNotMoreThanItsText(t *testing.T) {
	t.Parallel()
	value := rapid.Custom(func(t *rapid.T) any {
		var draw func(depth int) any
		draw = func(depth int) any {
			kinds := []string{"null", "bool", "number", "big", "text", "list", "map"}
			if depth == 0 {
				kinds = kinds[:5]
			}
			switch rapid.SampledFrom(kinds).Draw(t, "kind") {
			case "bool":
				return rapid.Bool().Draw(t, "bool")
			case "number":
				return rapid.IntRange(-5, 1<<40).Draw(t, "number")
			case "big":
				return new(big.Int).Lsh(big.NewInt(1), uint(rapid.IntRange(64, 2000).Draw(t, "bits"))) //nolint:gosec // it is positive
			case "text":
				return rapid.String().Draw(t, "text")
			case "list":
				list := make([]any, rapid.IntRange(0, 4).Draw(t, "elements"))
				for i := range list {
					list[i] = draw(depth - 1)
				}
				return list
			case "map":
				fields := map[string]any{}
				for range rapid.IntRange(0, 4).Draw(t, "fields") {
					fields[rapid.String().Draw(t, "key")] = draw(depth - 1)
				}
				return fields
			}
			return nil
		}
		return draw(4)
	})
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		text, err := gojq.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		r := room{bytes: maxResult, depth: 10}
		if err := r.subtract(v); err != nil {
			t.Fatal(err)
		}
		// The check allows one byte more than the text has, because subtract counts a comma for each value.
		if used := maxResult - r.bytes; used > len(text)+1 || r.depth != 10 {
			t.Fatalf("%d bytes of text count as %d bytes, with %d levels left", len(text), used, r.depth)
		}
	})
}

func TestAResultMayFillItsRoomAndNotMore(t *testing.T) {
	t.Parallel()
	nested := func(levels int) (v any) {
		v = []any{}
		for range levels - 1 {
			v = []any{v}
		}
		return v
	}
	for name, test := range map[string]struct {
		room  room
		value any
		want  string
	}{
		"a text that fills the room":         {room{bytes: 6, depth: 1}, "12345", ""},
		"a longer text":                      {room{bytes: 5, depth: 1}, "12345", "its result has more than 16777216 bytes"},
		"long keys":                          {room{bytes: 20, depth: 2}, map[string]any{strings.Repeat("k", 30): nil}, "its result has more than 16777216 bytes"},
		"many elements":                      {room{bytes: 20, depth: 2}, make([]any, 30), "its result has more than 16777216 bytes"},
		"a large number":                     {room{bytes: 20, depth: 1}, new(big.Int).Lsh(big.NewInt(1), 1000), "its result has more than 16777216 bytes"},
		"as deep as permitted":               {room{bytes: 100, depth: 3}, nested(3), ""},
		"deeper":                             {room{bytes: 100, depth: 3}, nested(4), "its result is nested deeper than 10000 levels"},
		"deep in a map":                      {room{bytes: 100, depth: 3}, map[string]any{"a": nested(3)}, "its result is nested deeper than 10000 levels"},
		"many values of the permitted depth": {room{bytes: 100, depth: 3}, []any{nested(2), nested(2), nested(2)}, ""},
	} {
		err := test.room.subtract(test.value)
		if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestRequestsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		type request struct {
			program string
			text    []byte
		}
		var requests []request
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			r := request{rapid.String().Draw(t, "program"), rapid.SliceOf(rapid.Byte()).Draw(t, "text")}
			if err := writeRequest(&stream, r.program, r.text); err != nil {
				t.Fatal(err)
			}
			requests = append(requests, r)
		}
		whole := slices.Clone(stream.Bytes())
		var into []byte
		for _, r := range requests {
			program, err := readPart(&stream, nil)
			if err != nil || string(program) != r.program {
				t.Fatalf("program %q came back as %q, %v", r.program, program, err)
			}
			if into, err = readPart(&stream, into); err != nil || !bytes.Equal(into, r.text) {
				t.Fatalf("text %q came back as %q, %v", r.text, into, err)
			}
		}
		if _, err := readPart(&stream, nil); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last request: %v", err)
		}
		cut := bytes.NewReader(whole[:rapid.IntRange(1, len(whole)-1).Draw(t, "cut")])
		var err error
		for err == nil {
			_, err = readPart(cut, nil)
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("of a stream that is cut off: %v", err)
		}
	})
}
