package inspect

import (
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// words are words of texts, some of them long, wide or with control characters.
var words = rapid.SliceOfN(rapid.SampledFrom([]string{
	"a", "the", "module", "registry.example.com/ingress/controller:1.14.2", strings.Repeat("x", 50), "日本語のテキスト", "äöü", "é́", "/", "//x",
	"\x1b[31mred\x1b[0m", "tab\there", "\u200b", "kubectl",
}), 0, 30)

// TestWrappedTextHasAllWordsInLinesOfTheWidth wraps random texts. The lines must have all characters of the text. Only
// a line with a single character may be wider than the width, because one character can take two columns.
func TestWrappedTextHasAllWordsInLinesOfTheWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(words.Draw(t, "words"), " ")
		width := rapid.IntRange(1, 90).Draw(t, "width")
		lines := wrap(text, width)
		for _, line := range lines {
			if columns(line) > width && utf8.RuneCountInString(line) > 1 {
				t.Errorf("%q has %d columns, more than %d", line, columns(line), width)
			}
			if line == "" || line != strings.TrimSpace(line) {
				t.Errorf("%q begins or ends with a blank", line)
			}
		}
		without := func(text string) string { return strings.ReplaceAll(text, " ", "") }
		if got, want := without(strings.Join(lines, "")), without(flat(text)); got != want {
			t.Errorf("the lines have %q, and the text has %q", got, want)
		}
	})
}

func TestTextIsWrappedBetweenWordsAndWithinAWordAfterASlash(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text  string
		width int
		want  []string
	}{
		"nothing":                              {"", 10, nil},
		"blanks":                               {" \n\t ", 10, nil},
		"a line of exactly the width":          {"one two", 7, []string{"one two"}},
		"a line one column too wide":           {"one two", 6, []string{"one", "two"}},
		"line breaks are blanks":               {"one\ntwo\r\nthree", 20, []string{"one two three"}},
		"a long word with slashes":             {"see example.com/a/long/path", 16, []string{"see", "example.com/a/", "long/path"}},
		"a long word without a slash":          {"abcdefghij", 4, []string{"abc", "def", "ghij"}},
		"a slash at the beginning of the word": {"/abcdefghij", 4, []string{"/ab", "cde", "fgh", "ij"}},
		"letters of two columns":               {"日本語", 4, []string{"日", "本語"}},
	} {
		if diff := cmp.Diff(test.want, wrap(test.text, test.width)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestClippedTextFitsAndEndsWithAnEllipsis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := flat(strings.Join(words.Draw(t, "words"), " "))
		width := rapid.IntRange(1, 90).Draw(t, "width")
		for _, l := range []Layout{{}, {ASCII: true}} {
			got := l.clip(text, width)
			if columns(got) > width {
				t.Errorf("%q has %d columns, more than %d", got, columns(got), width)
			}
			if columns(text) <= width && got != text {
				t.Errorf("%q fits in %d columns, but is clipped to %q", text, width, got)
			}
			if columns(text) > width && (!strings.HasSuffix(got, l.ascii("…", "~")) || !strings.HasPrefix(text, strings.TrimSuffix(got, l.ascii("…", "~")))) {
				t.Errorf("%q is clipped to %q", text, got)
			}
		}
	})
	for text, want := range map[string]string{"12345678": "12345678", "123456789": "1234567…", "1234 6789": "1234 67…", "123456 89": "123456…", "日本語日本": "日本語…"} {
		if got := (Layout{}).clip(text, 8); got != want {
			t.Errorf("%q is clipped to %q, want %q", text, got, want)
		}
	}
}

func TestLongTextKeepsItsBeginningAndItsEnd(t *testing.T) {
	t.Parallel()
	const text = "module web failed: one two three four five six: no space left"
	for name, test := range map[string]struct {
		layout      Layout
		text        string
		width, most int
		want        []string
	}{
		"three lines of four":   {Layout{}, text, 18, 3, []string{"module web failed:", "one two three four", "… no space left"}},
		"one line":              {Layout{}, text, 18, 1, []string{"module web failed…"}},
		"in ASCII":              {Layout{ASCII: true}, text, 20, 2, []string{"module web failed:", "... no space left"}},
		"all lines are wanted":  {Layout{Whole: true}, text, 18, 1, wrap(text, 18)},
		"wide":                  {Layout{Wide: true}, text, 18, 1, wrap(text, 18)},
		"as many as are wanted": {Layout{}, text, 18, 4, wrap(text, 18)},
		"a long last word":      {Layout{}, "one two three " + strings.Repeat("x", 30), 12, 2, []string{"one two", "three xxxxx…"}},
	} {
		if diff := cmp.Diff(test.want, test.layout.lines(test.text, test.width, test.most)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCutTextHasAtMostTheWantedLines cuts random texts. If more than one line is allowed, the first line must be the
// beginning of the text.
func TestCutTextHasAtMostTheWantedLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(words.Draw(t, "words"), " ")
		width, most := rapid.IntRange(4, 90).Draw(t, "width"), rapid.IntRange(1, 5).Draw(t, "most")
		lines := Layout{}.lines(text, width, most)
		if len(lines) > most {
			t.Errorf("%d lines, more than %d: %q", len(lines), most, lines)
		}
		for _, line := range lines {
			if columns(line) > width {
				t.Errorf("%q has %d columns, more than %d", line, columns(line), width)
			}
		}
		whole := wrap(text, width)
		if len(whole) > 0 && most > 1 && lines[0] != whole[0] {
			t.Errorf("the first line is %q, and was %q", lines[0], whole[0])
		}
		if len(whole) <= most && !cmp.Equal(lines, whole) {
			t.Errorf("%q is cut to %q, although it fits", whole, lines)
		}
	})
}

func TestReasonIsTheFirstLineUnlessTheWholeTextIsWanted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 250) + "\nsecond"
	for name, test := range map[string]struct {
		layout Layout
		text   string
		want   string
	}{
		"one line":          {Layout{}, "exit  status 1", "exit status 1"},
		"two lines":         {Layout{}, "first\nsecond", "first"},
		"two lines, whole":  {Layout{Whole: true}, "first\nsecond", "first second"},
		"two lines, wide":   {Layout{Wide: true}, "first\nsecond", "first second"},
		"200 columns":       {Layout{}, strings.Repeat("x", 200), strings.Repeat("x", 200)},
		"more, cut":         {Layout{}, long, strings.Repeat("x", 199) + "…"},
		"more, whole":       {Layout{Whole: true}, long, strings.Repeat("x", 250) + " second"},
		"an empty text":     {Layout{}, "", ""},
		"a first line of 0": {Layout{}, "\nsecond", ""},
	} {
		if got := test.layout.reason(test.text); got != test.want {
			t.Errorf("%s: the reason is %q, want %q", name, got, test.want)
		}
	}
}

func TestFlatTextHasOneLineWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "",
		"  a  b ":                         "a b",
		"a\r\n\tb":                        "a b",
		"\x1b[31mred\x1b[0m":              "red",
		"\x1b[1m\x1b[33mbold\x1b[m text":  "bold text",
		"a\x00b\x07c":                     "a b c",
		"zero\u200bwidth":                 "zero width",
		"no\u00a0break":                   "no break",
		"äöü 日本":                          "äöü 日本",
		"\u202egnp.exe":                   "gnp.exe",
		"kept: \x1b\x1b[32mgreen\x1b[34m": "kept: green",
	} {
		if got := flat(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestWidthOfTextIsItsWidthOnATerminal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "abc": 3, "äöü": 3, "e\u0301": 1, "日本": 4, "한국": 4, "ﾊ": 1, "Ｆ": 2, "🚀": 2, "✔ done": 6, "├─ ": 3, "\U00020000": 2,
	} {
		if got := columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
	if got := fill("日本", 6); got != "日本  " {
		t.Errorf("filled to 6 columns it is %q", got)
	}
	if got := fill("abc", 2); got != "abc" {
		t.Errorf("a text that is wider than its column is %q", got)
	}
	if got := left("日本", 6); got != "  日本" {
		t.Errorf("on the right of 6 columns it is %q", got)
	}
}

func TestHeightCountsTheRowsOfATerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines []string
		width int
		want  int
	}{
		"no line":                     {nil, 10, 0},
		"an empty line":               {[]string{""}, 10, 1},
		"a line of the width":         {[]string{"1234567890"}, 10, 1},
		"a line one column wider":     {[]string{"12345678901"}, 10, 2},
		"three rows and one":          {[]string{strings.Repeat("x", 21), "y"}, 10, 4},
		"colours take no column":      {[]string{green + "1234567890" + plain}, 10, 1},
		"letters of two columns":      {[]string{"日本語日本語"}, 10, 2},
		"a line twice the width wide": {[]string{strings.Repeat("x", 20)}, 10, 2},
	} {
		if got := heightOf(test.lines, test.width); got != test.want {
			t.Errorf("%s: %d rows, want %d", name, got, test.want)
		}
	}
}

func TestAgesAreWholeSecondsAndFitInTheirColumn(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{-time.Second: "0s", 900 * time.Millisecond: "0s", 9900 * time.Millisecond: "9s", 10 * time.Second: "10s", time.Minute: "1m00s"} {
		if got := age(d); got != want {
			t.Errorf("an age of %s is %q, want %q", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(999*24*time.Hour)).Draw(t, "d"))
		if got := Span(d); columns(got) > 7 || d < 100*24*time.Hour && columns(got) > 6 {
			t.Errorf("%s is %q", d, got)
		}
	})
}

func TestTimesHaveADateOnOtherDays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ist := time.FixedZone("IST", 19800)
	for name, test := range map[string]struct {
		zone                *time.Location
		at                  time.Time
		clock, short, zoned string
	}{
		"now":                                {nil, now, "12:00:00Z", "12:00:00", ""},
		"earlier today":                      {nil, now.Add(-12 * time.Hour), "00:00:00Z", "00:00:00", ""},
		"yesterday":                          {nil, now.Add(-12*time.Hour - time.Second), "2026-02-28 23:59:59Z", "23:59:59", ""},
		"20 hours ago":                       {nil, now.Add(-20 * time.Hour), "2026-02-28 16:00:00Z", "16:00:00", ""},
		"more than 20 hours ago":             {nil, now.Add(-20*time.Hour - time.Second), "2026-02-28 15:59:59Z", "Feb 28", ""},
		"the same day of another year":       {nil, now.AddDate(-1, 0, 0), "2025-03-01 12:00:00Z", "Mar 01", ""},
		"tomorrow":                           {nil, now.Add(12 * time.Hour), "2026-03-02 00:00:00Z", "00:00:00", ""},
		"a time without a value":             {nil, time.Time{}, "0001-01-01 00:00:00Z", "", ""},
		"another zone":                       {ist, now, "17:30:00", "17:30:00", " IST"},
		"yesterday in UTC, but today in IST": {ist, now.Add(-13 * time.Hour), "04:30:00", "04:30:00", " IST"},
	} {
		l := Layout{Now: now, Zone: test.zone}
		if got := l.Clock(test.at); got != test.clock {
			t.Errorf("%s: the time is %q, want %q", name, got, test.clock)
		}
		if got := l.short(test.at); got != test.short {
			t.Errorf("%s: the short time is %q, want %q", name, got, test.short)
		}
		if got := l.zone(test.at); got != test.zoned {
			t.Errorf("%s: the zone is %q, want %q", name, got, test.zoned)
		}
	}
	if got := (Layout{Zone: ist}).Stamp(now); got != "2026-03-01T17:30:00+05:30" {
		t.Errorf("the stamp is %q", got)
	}
	l := Layout{Now: now}
	for at, want := range map[time.Duration]string{-time.Minute: "11:59:00Z (now)", 0: "12:00:00Z (now)", 1500 * time.Millisecond: "12:00:01Z (in 1s)", 90 * time.Second: "12:01:30Z (in 1m30s)"} {
		if got := l.due(now.Add(at)); got != want {
			t.Errorf("an event in %s is due %q, want %q", at, got, want)
		}
	}
}

func TestBadgesAreIconsAndWords(t *testing.T) {
	t.Parallel()
	all := []State{Done, Allowed, Skipped, Dropped, Superseded, Joined, Refused, Quarantined, Running, Waiting, Failed, Backoff, Interrupted, Failing}
	if len(all) != len(badges) {
		t.Fatalf("there are %d badges for %d states", len(badges), len(all))
	}
	for _, s := range all {
		text, colour := Layout{}.badge(s)
		icon, word, tone := s.Badge()
		if text != icon+" "+word || word != string(s) || colour == "" || tone != badges[s].tone {
			t.Errorf("state %s has the badge %q, the word %q, the colour %q and the tone %q", s, text, word, colour, tone)
		}
		if columns(text) > stateColumn {
			t.Errorf("badge %q is wider than its column", text)
		}
		ascii, same := Layout{ASCII: true}.badge(s)
		for _, r := range ascii {
			if r > 127 {
				t.Errorf("the badge %q of an ASCII layout has %q", ascii, r)
			}
		}
		if same != colour {
			t.Errorf("state %s has the colours %q and %q", s, colour, same)
		}
	}
	if text, colour := (Layout{}).badge("later version"); text != "later version" || colour != "" {
		t.Errorf("an unknown state has the badge %q with the colour %q", text, colour)
	}
	if icon, word, _ := State("later version").Badge(); icon != "" || word != "later version" {
		t.Errorf("an unknown state has the icon %q and the word %q", icon, word)
	}
}

func TestOnlyALayoutWithColoursHasEscapeCodes(t *testing.T) {
	t.Parallel()
	colours := Layout{Colour: true}
	if got := colours.paint(red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colours, the text is %q", got)
	}
	if got := colours.paint(red, ""); got != "" {
		t.Errorf("with colours, an empty text is %q", got)
	}
	if got := (Layout{}).paint(red, "x"); got != "x" {
		t.Errorf("without colours, the text is %q", got)
	}
}

func TestANarrowTerminalIsTreatedAs40Columns(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]int{-1: 80, 0: 80, 1: 40, 39: 40, 40: 40, 41: 41, Unlimited: Unlimited} {
		if got := (Layout{Width: width}).width(); got != want {
			t.Errorf("a layout of %d columns has %d, want %d", width, got, want)
		}
	}
}

// TestQuotedTextIsOneWordOfAShell passes quoted texts to a shell, which must return the texts.
func TestQuotedTextIsOneWordOfAShell(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", "web", "hooks/a.sh", "two words", "it's", `a"b`, `a\b`, "$HOME", "`id`", "a;b", "a&b", "a|b", "<a>", "(a)", "*", "a?b", "[a]", "#a", "~", "a!b", "{a,b}", "a\tb", "a\nb",
		"--reason", "every 5 minutes", "日本", "''", `'\''`, "a=b", "^a", "%s",
	}
	command := "printf '%s.'"
	for _, text := range texts {
		command += " " + Quoted(text)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output() //nolint:gosec // the test runs quoted texts on purpose
	if want := strings.Join(texts, ".") + "."; err != nil || string(out) != want {
		t.Errorf("a shell makes %q, want %q, error %v", out, want, err)
	}
	if got := Quoted("hooks/a-b_c.sh@1:2,3=4+5"); got != "hooks/a-b_c.sh@1:2,3=4+5" {
		t.Errorf("a text without special characters is quoted: %s", got)
	}
}

func TestCommandsBeginWithTheProgramAndEndWithItsFlags(t *testing.T) {
	t.Parallel()
	l := Layout{Program: "addon-operator", More: " --store /s"}
	if got, want := l.command("why", "every 5 minutes"), "addon-operator why 'every 5 minutes' --store /s"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	if got, want := (Layout{}).command("why", "web"), "why web"; got != want {
		t.Errorf("without a program, the command is %q, want %q", got, want)
	}
}

func TestItemIsIndentedBelowItsLead(t *testing.T) {
	t.Parallel()
	l := Layout{Width: 40}
	text := strings.Repeat("word ", 40)
	for name, test := range map[string]struct {
		layout          Layout
		lead, text, end string
		want            string
	}{
		"one line":       {l, "• ", "a text", " (1)", "• a text (1)\n"},
		"two lines":      {l, "lead: ", "this is a text of more than forty columns", ".", "lead: this is a text of more than forty\n      columns.\n"},
		"an empty text":  {l, "lead", "", ".", "lead.\n"},
		"cut to 3 lines": {l, "", text, "", strings.Repeat("word word word word word word word word\n", 2) + "… word word word word word word word\n"},
		"whole":          {Layout{Width: 40, Whole: true}, "", text, "", strings.Repeat("word word word word word word word word\n", 5)},
	} {
		if got := test.layout.Item(test.lead, test.text, test.end); got != test.want {
			t.Errorf("%s: the item is\n%q, want\n%q", name, got, test.want)
		}
	}
}

func TestATableWithoutRowsIsEmpty(t *testing.T) {
	t.Parallel()
	if got := (Layout{}).Table(nil); got != "" {
		t.Errorf("the table is %q", got)
	}
	if got, want := (Layout{}).Table([][]string{{"A", "B"}}), "A  B\n"; got != want {
		t.Errorf("a table of a heading is %q, want %q", got, want)
	}
}

func TestColumnsOfATableAreAsWideAsTheirWidestCell(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"NAME", "STATE", "REASON"}, {"日本", "on", ""}, {"a\nb\x1b", "failing", "why\nnot"}}
	want := "NAME  STATE    REASON\n日本  on\na b   failing  why not\n"
	if got := (Layout{}).Table(rows); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	if got := (Layout{Colour: true}).Table(rows[:1]); got != grey+"NAME  STATE  REASON"+plain+"\n" {
		t.Errorf("with colours, the heading is %q", got)
	}
}
