package hook

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestPiecesDoNotChangeLines checks that a lineWriter passes on the same lines, however the text is split into writes.
func TestPiecesDoNotChangeLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab\n\ré…"))).Draw(t, "text")
		var got []string
		var turn sync.Mutex
		w := &lineWriter{turn: &turn, pass: func(_ Stream, line string) { got = append(got, line) }}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if written, err := w.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatalf("%d of %d bytes written, %v", written, n, err)
			}
			rest = rest[n:]
		}
		w.close()
		want := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if text == "" {
			want = nil
		}
		if len(got) != len(want) {
			t.Fatalf("%q gives %q", text, got)
		}
		for i := range want {
			if got[i] != strings.TrimSuffix(want[i], "\r") {
				t.Errorf("%q gives %q", text, got)
			}
		}
	})
}

func TestLongLinesAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"as long as may be": {strings.Repeat("é", 10_000), strings.Repeat("é", 10_000)},
		"one more":          {strings.Repeat("é", 10_001), strings.Repeat("é", 9_999) + "…"},
		"very long":         {strings.Repeat("é", 1_000_000), strings.Repeat("é", 9_999) + "…"},
		"cut within bytes":  {"a" + strings.Repeat("😀", 20_000), "a" + strings.Repeat("😀", 9_998) + "…"},
	} {
		var got []string
		var turn sync.Mutex
		w := &lineWriter{turn: &turn, pass: func(_ Stream, line string) { got = append(got, line) }}
		for _, piece := range []string{c.line[:len(c.line)/3], c.line[len(c.line)/3:] + "\nnext\n"} {
			_, _ = w.Write([]byte(piece))
		}
		if len(got) != 2 || got[0] != c.want || got[1] != "next" {
			t.Errorf("%s: %d lines, the first of %d characters", name, len(got), utf8.RuneCountInString(got[0]))
		}
		if cap(w.line) > 4*maxLine*utf8.UTFMax {
			t.Errorf("%s: %d bytes are held for one line", name, cap(w.line))
		}
	}
}

func TestTailIsTheEndOfTheStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.StringN(1, 40, -1).Draw(t, "unit"), rapid.IntRange(0, 400).Draw(t, "times"))
		w := &tailWriter{}
		for rest := text; rest != ""; {
			n := min(len(rest), rapid.IntRange(1, 9000).Draw(t, "piece"))
			_, _ = w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		got := w.text()
		end, cut := strings.CutPrefix(got, "…")
		switch {
		case len(text) <= maxTail && got != strings.TrimSpace(text):
			t.Errorf("%q is kept as %q", text, got)
		case len(text) > maxTail && (!cut || len(end) > maxTail || !strings.HasSuffix(strings.TrimSpace(text), end) || !utf8.ValidString(end)):
			t.Errorf("of %d bytes %q is kept", len(text), got)
		}
	})
}

func TestTailHidesSecrets(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxTail-10)
	for name, c := range map[string]struct{ text, want string }{
		"a secret":                          {"+ mysql --password hunter2\nno route\n", "+ mysql --password (redacted)\nno route"},
		"a name before the tail":            {"password=hunter2 " + long, "password=(redacted)"},
		"a name that was dropped":           {"password=" + strings.Repeat("hunter2", maxKept) + "\nno route", "…no route"},
		"a long line with a name before it": {"token: abc\n" + strings.Repeat("x", 2*maxKept), "…" + strings.Repeat("x", maxTail)},
		"a private key": {
			"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("hunter2\n", maxTail/8) + "-----END PRIVATE KEY-----\nno route", "(redacted)\nno route",
		},
	} {
		w := &tailWriter{}
		_, _ = w.Write([]byte(c.text))
		if got := w.text(); got != c.want {
			t.Errorf("%s: %.80q of %d bytes, want %.80q of %d", name, got, len(got), c.want, len(c.want))
		}
	}
}

func TestBoundCountsWhatItDrops(t *testing.T) {
	t.Parallel()
	w := &boundWriter{most: 5}
	for _, piece := range []string{"abc", "", "defg", "h"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("%q: %d, %v", piece, n, err)
		}
	}
	if string(w.kept) != "abcde" || w.over != 3 {
		t.Errorf("kept %q and dropped %d", w.kept, w.over)
	}
}
