package tree_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/tree"
)

func TestExactlyOneJSONValueIsDecoded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`{"a":[1.50,null,true,"x"]}`: map[string]any{"a": []any{json.Number("1.50"), nil, true, "x"}},
		" \n null \t":                nil,
		`"x" `:                       "x",
		"-0":                         json.Number("-0"),
	} {
		got, err := tree.Decode([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", " ", "{", `{"a":1} x`, "1 2", "null null", "{}{}", "01", "nul", `{"a":1,}`, "# x"} {
		if got, err := tree.Decode([]byte(text)); err == nil || got != nil {
			t.Errorf("%q is decoded as %v, %v", text, got, err)
		}
	}
	if _, err := tree.Decode([]byte(`{"a":1} hunter2`)); err == nil || err.Error() != "something follows the JSON value" {
		t.Error(err)
	}
}

func TestJSONValuesAreYieldedUpToTheFirstError(t *testing.T) {
	t.Parallel()
	for text, test := range map[string]struct {
		values []string
		err    string
	}{
		"":                  {nil, ""},
		" \n":               {nil, ""},
		`{"a": 1}[2]"x"3 4`: {[]string{`{"a": 1}`, `[2]`, `"x"`, `3`, `4`}, ""},
		`1 {"a":`:           {[]string{"1"}, "ends in the middle"},
		`1 hunter2 3`:       {[]string{"1"}, "is not valid JSON near byte 1"},
		`[1}`:               {nil, "is not valid JSON near byte 0"},
	} {
		var values []string
		var errs []error
		for value, err := range tree.JSON([]byte(text)) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			values = append(values, string(value))
		}
		if diff := cmp.Diff(test.values, values); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if len(errs) != min(1, len(test.err)) || len(errs) > 0 && (errs[0].Error() != test.err || !errors.As(errs[0], new(*tree.NotationError))) {
			t.Errorf("%q: %v, want %q", text, errs, test.err)
		}
	}
	for range tree.JSON([]byte("1 2 x")) {
		break // tree.JSON must not yield another value after the loop has ended
	}
}

func TestTheNotationOfATextIsWrongOnlyIfItCannotBeParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"a":`: true, "a: [": true, "a: b: c": true, "a: .nan": true,
		"a: " + strings.Repeat("x", 5<<20): false,
	} {
		_, err := tree.Documents([]byte(text))
		if got := errors.As(err, new(*tree.NotationError)); err == nil || got != want {
			t.Errorf("%.20q: a wrong notation %t: %v", text, got, err)
		}
	}
}

func TestJSONIsAlsoReadAsYAML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("aZ0 :-#é\n\t\"'{}[],&*!|>%@`~"))) // strings with characters of the YAML syntax
		value := rapid.MapOf(text, rapid.SliceOf(rapid.OneOf(text.AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny()))).Draw(t, "value")
		written, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tree.Decode(written)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tree.FirstYAML(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-JSON +YAML):\n%s", written, diff)
		}
	})
}

func TestKeysOfYAMLMapsBecomeTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1: x": "1", "-7: x": "-7", "1.5: x": "1.5", "1e3: x": "1000", "on: x": "true", "no: x": "false", "'1': x": "1", ".inf: x": ".inf", "-.inf: x": "-.inf", ".nan: x": ".nan",
		"9223372036854775807: x": "9223372036854775807", "!!binary /w==: x": "\ufffd",
	} {
		got, err := tree.FirstYAML([]byte(text))
		if diff := cmp.Diff(map[string]any{want: "x"}, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"~: x", "[a]: x", "? {a: b}\n: x", "9223372036854775808: x"} {
		if got, err := tree.FirstYAML([]byte(text)); err == nil || !strings.Contains(err.Error(), "a key of a map must be a plain word") {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

func TestNumbersOfYAMLKeepTheirValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]json.Number{
		"0x1F": "31", "017": "15", "0b101": "5", "1_000": "1000", "-5": "-5", "1.50": "1.5", "1e3": "1000", "1e100": "1e+100", "-0.0": "-0",
		"9223372036854775807": "9223372036854775807", "18446744073709551615": "18446744073709551615",
	} {
		if got, err := tree.FirstYAML([]byte(text)); err != nil || got != any(want) {
			t.Errorf("%s is read as %#v, %v, want %s", text, got, err, want)
		}
	}
}

func TestBinaryTextsAreValidUTF8(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"!!binary /w==": "\ufffd", "!!binary w6k=": "é", "!!binary YQ==": "a", "!!binary 4oI=": "\ufffd\ufffd"} {
		got, err := tree.FirstYAML([]byte(text))
		if read, _ := got.(string); err != nil || read != want || !utf8.ValidString(read) {
			t.Errorf("%s is read as %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestNoDocumentIsReadFromAnEmptyYAMLText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# a comment\n", "\n\n", "---\n", "~"} {
		if got, err := tree.FirstYAML([]byte(text)); got != nil || err != nil {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	n := 0
	for document, err := range tree.YAML([]byte("a: 1\n---\nb: [\n---\nc: 3")) {
		if n++; n == 1 && err != nil || n == 2 && err == nil || n > 2 {
			t.Errorf("document %d: %v, %v", n, document, err)
		}
	}
	if n != 2 {
		t.Errorf("%d documents are read, the second is not valid", n)
	}
}

func TestKindsAreNamedForPeople(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tree any
		want string
	}{
		{nil, "null"},
		{"", "a string"},
		{false, "a boolean"},
		{[]any{}, "a list"},
		{map[string]any{}, "a map"},
		{json.Number("1"), "a number"},
		{1, "a number"},
		{int64(1), "a number"},
		{1.5, "a number"},
	} {
		if got := tree.Kind(test.tree); got != test.want {
			t.Errorf("%#v is %s, want %s", test.tree, got, test.want)
		}
	}
}

func TestAnExcerptHasSixtyCharacters(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "", 60: strings.Repeat("é", 60), 61: strings.Repeat("é", 60) + "…"} {
		if got := tree.Excerpt(strings.Repeat("é", n)); got != want {
			t.Errorf("of %d characters: %q", n, got)
		}
	}
}

func TestThePartsOfATextAreTheDocumentsThatYAMLReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var want []any
		for i := range rapid.IntRange(1, 5).Draw(t, "documents") {
			end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			if i > 0 || rapid.Bool().Draw(t, "separator first") {
				text.WriteString(rapid.SampledFrom([]string{"---", "--- ", "--- # comment", "---\t"}).Draw(t, "separator") + end)
			}
			text.WriteString(fmt.Sprintf("n: %d%s", i, end) + rapid.SampledFrom([]string{"", "\n", "# ---\n", "x: |\n  ---\n"}).Draw(t, "rest"))
			document, err := tree.FirstYAML([]byte(text.String()[strings.LastIndex(text.String(), "n: "):]))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, document)
		}
		var got []any
		lines := strings.SplitAfter(text.String(), "\n")
		for i, part := range tree.Split([]byte(text.String())) {
			document, err := tree.FirstYAML(part.Text)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, document)
			if part.Number != i+1 {
				t.Fatalf("part %d has the number %d", i+1, part.Number)
			}
			if first, _, _ := bytes.Cut(part.Text, []byte("\n")); !strings.Contains(lines[part.Line-1], strings.TrimSpace(string(first))) {
				t.Fatalf("part %d begins with %q, but line %d is %q", i+1, first, part.Line, lines[part.Line-1])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text.String(), diff)
		}
	})
}
