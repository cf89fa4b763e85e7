package hook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// joined returns the lines that a joiner passes on. The joiner processes the given lines, and releases both streams at
// the end. In the given lines and in the result, the prefix "err: " marks a line of stderr.
func joined(lines ...string) []string {
	got := []string{}
	j := newJoiner(func(stream Stream, line string) {
		if stream == Stderr {
			line = "err: " + line
		}
		got = append(got, line)
	})
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, "err: "); ok {
			j.line(Stderr, text)
		} else {
			j.line(Stdout, line)
		}
	}
	j.release(Stdout)
	j.release(Stderr)
	return got
}

func TestJSONObjectsOverSeveralLinesComeAsOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lines, want []string }{
		"pretty-printed": {
			[]string{"before", "{", `  "level": "warn",`, `  "msg": "a \"}\" b"`, "}", "after"},
			[]string{"before", `{"level":"warn","msg":"a \"}\" b"}`, "after"},
		},
		"one after the other": {
			[]string{"{", "}", `{"a": [`, "1]}"},
			[]string{"{}", `{"a":[1]}`},
		},
		"of one line": {[]string{`{"a": 1}`}, []string{`{"a": 1}`}},
		"no object": {
			[]string{"{ echo", "}", "[", "1]", "x"},
			[]string{"{ echo", "}", "[", "1]", "x"},
		},
		"one that begins where another breaks off": {
			[]string{`{"a":`, "oops", "{", "}"},
			[]string{`{"a":`, "oops", "{}"},
		},
		"something behind it":   {[]string{"{", "} {"}, []string{"{", "} {"}},
		"cut off":               {[]string{"{", `"a": 1`}, []string{"{", `"a": 1`}},
		"both streams mixed":    {[]string{"{", "err: {", "err: text", `"a": 1`, "}", "err: {}"}, []string{"err: {", "err: text", `{"a":1}`, "err: {}"}},
		"empty lines within it": {[]string{"{", "", "}", ""}, []string{"{}", ""}},
	} {
		if diff := cmp.Diff(c.want, joined(c.lines...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatIsHeldBackIsBounded(t *testing.T) {
	t.Parallel()
	lines := []string{"["}
	for range 3 * joinLines {
		lines = append(lines, "1,")
	}
	lines[0] = `{"a": [`
	if got := joined(lines...); len(got) != len(lines) {
		t.Errorf("%d lines became %d", len(lines), len(got))
	}
	long := `{"a": "` + strings.Repeat("x", joinBytes)
	if diff := cmp.Diff([]string{long, `"}`}, joined(long, `"}`)); diff != "" {
		t.Error("a line beyond the bound is held back")
	}
}

// FuzzJoiner checks that a joiner has passed on all lines, and no others, when both streams are released. Differences
// in white space are ignored.
func FuzzJoiner(f *testing.F) {
	for _, seed := range []string{"{\n}\n", "{\"a\":\n1}\nx\n{\n", "a\n{\"b\": \"\\\n\"}\n", "eerr: rr: {\nx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if strings.Contains(text, "err: ") {
			return // joined would read this as a line of stderr, and a joiner keeps the order only within a stream
		}
		lines := strings.Split(text, "\n")
		if got, want := squeeze(strings.Join(joined(lines...), "\n")), squeeze(strings.Join(lines, "\n")); got != want {
			t.Errorf("%q became %q", want, got)
		}
	})
}
