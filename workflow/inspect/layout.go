package inspect

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"addon-operator/workflow/draw"
)

// A Layout is the layout of a text. The zero value has 80 columns and no colors.
type Layout struct {
	Width  int  // columns; 0 means 80, and less than 40 means 40
	Height int  // maximum number of lines; 0 means no limit, except where a function has a limit of its own
	ASCII  bool // only ASCII icons and lines
	Colour bool // with escape codes for colors; icons and words have the same meaning without colors
	All    bool // no rows are merged, and rows are omitted only if the text exceeds Height
	Whole  bool // long texts are not cut, but continue on further lines
	Wide   bool // like Whole, and also with tasks, queues and details
	// Now is the time at which the text is read; zero means the time of the snapshot. Some functions require that Now
	// is set.
	Now time.Time
	// Zone is the time zone of all times; nil means UTC.
	Zone *time.Location
	// Source describes in one line where the snapshot comes from.
	Source string
	// Program and More are the beginning and the end of each command in the text.
	Program, More string
}

// Unlimited is the width of text for files and pipes, so that a search finds whole sentences.
const Unlimited = 1 << 20

func (l Layout) width() int {
	if l.Width <= 0 {
		return 80
	}
	return max(l.Width, 40)
}

func (l Layout) whole() bool { return l.Whole || l.Wide }

// reason returns an error or a detail on one line: the first 200 columns of its first line, or the
// whole text if the layout cuts nothing.
func (l Layout) reason(text string) string {
	if l.whole() {
		return flat(text)
	}
	first, _, _ := strings.Cut(text, "\n")
	return l.clip(flat(first), 200)
}

// lines wraps text to width. If the text has more lines than the parameter most allows, its middle is omitted. The
// beginning and the end stay, because in an error they say what failed and why. If only one line is allowed, or if the
// last word is longer than a line, the end is omitted instead. Nothing is omitted if the layout cuts nothing.
func (l Layout) lines(text string, width, most int) []string {
	lines := wrap(text, width)
	if len(lines) <= most || l.whole() {
		return lines
	}
	if most == 1 {
		return []string{l.clip(lines[0]+" "+lines[1], width)}
	}
	end := l.dots()
	words := strings.Fields(text)
	for i := range slices.Backward(words) {
		longer := l.dots() + " " + strings.Join(words[i:], " ")
		if columns(longer) > width {
			break
		}
		end = longer
	}
	if end == l.dots() { // the last word is longer than a line
		lines[most-1] = l.clip(lines[most-1]+" "+lines[most], width)
		return lines[:most]
	}
	return append(lines[:most-1:most-1], end)
}

// heightOf returns the number of rows that lines need on a terminal of width columns, which breaks
// longer lines.
func heightOf(lines []string, width int) (n int) {
	for _, line := range lines {
		n += max(1, (columns(controls.ReplaceAllString(line, ""))+width-1)/width)
	}
	return n
}

// badges has the icon, the icon in ASCII, the word and the color of each state, and the tone of the
// state in drawings.
var badges = map[State]struct {
	icon, ascii, word, colour string
	tone                      draw.Tone
}{
	Done:        {"✔", "+", "done", green, draw.Done},
	Allowed:     {"!", "!", "allowed", yellow, draw.Done},
	Skipped:     {"○", "-", "skipped", yellow, draw.Done},
	Dropped:     {"○", "-", "dropped", grey, draw.Plain},
	Superseded:  {"»", ">", "superseded", grey, draw.Plain},
	Joined:      {"→", ">", "joined", grey, draw.Done},
	Refused:     {"✖", "x", "refused", red, draw.Failed},
	Quarantined: {"✖", "x", "quarantined", red, draw.Failed},
	Running:     {"●", "*", "running", blue, draw.Active},
	Waiting:     {"◷", ".", "waiting", grey, draw.Waiting},
	Failed:      {"✖", "x", "failed", red, draw.Failed},
	Backoff:     {"↻", "x", "backoff", red, draw.Failed},
	Failing:     {"✖", "x", "failing", red, draw.Failed},
	Interrupted: {"⟲", "~", "interrupted", yellow, draw.Waiting},
}

// Escape codes of the colors.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
	grey   = "\x1b[90m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// paint returns text with the given escape code of a color, if the layout has colors.
func (l Layout) paint(colour, text string) string {
	if !l.Colour || text == "" {
		return text
	}
	return colour + text + plain
}

// badge returns the icon and the word of a state as one text, and the color of the state.
func (l Layout) badge(s State) (text, colour string) {
	k, ok := badges[s]
	if !ok {
		return string(s), ""
	}
	if l.ASCII {
		return k.ascii + " " + k.word, k.colour
	}
	return k.icon + " " + k.word, k.colour
}

// ascii returns the second text for an ASCII layout, otherwise the first.
func (l Layout) ascii(other, ascii string) string {
	if l.ASCII {
		return ascii
	}
	return other
}

func (l Layout) dots() string { return l.ascii("…", "...") }

// columns returns the width of text on a terminal, in columns.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += wide(r)
	}
	return n
}

// wide returns the width of r in columns: 0 for combining marks, 2 for East Asian letters and emoji,
// otherwise 1.
func wide(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	default:
		return 1
	}
}

// clip returns text if it has at most width columns. clip cuts longer text and appends an ellipsis.
func (l Layout) clip(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	n := 0
	for i, r := range text {
		if n+wide(r) > width-1 {
			return strings.TrimRight(text[:i], " ") + l.ascii("…", "~")
		}
		n += wide(r)
	}
	return text
}

// flat returns text on one line, with single blanks and without control characters, which a terminal
// would interpret.
func flat(text string) string {
	text = escapes.Replace(text)
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
}

// escapes removes the usual color codes. Otherwise, flat would remove only the escape character of a code, and the rest
// of the code would be shown as text.
var escapes = strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[34m", "", "\x1b[m", "")

// wrap breaks text between words into lines of at most width columns. wrap breaks a word longer than a line after the
// last slash that fits on the line, or at the end of the line if no slash fits.
func wrap(text string, width int) []string {
	var lines []string
	at := ""
	for word := range strings.FieldsSeq(flat(text)) {
		if at != "" && columns(at)+1+columns(word) > width {
			lines, at = append(lines, at), ""
		}
		for columns(word) > width {
			cut := 0
			for i := range word {
				if columns(word[:i]) > width-1 {
					break
				}
				cut = i
			}
			cut = max(cut, 1)
			if slash := strings.LastIndexByte(word[:cut], '/'); slash > 0 {
				cut = slash + 1
			}
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		at = strings.TrimSpace(at + " " + word)
	}
	if at != "" {
		lines = append(lines, at)
	}
	return lines
}

// fill appends blanks to text up to width columns.
func fill(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

// Span returns the duration d as text, such as "4m05s". The text of a duration below 100 days has at most six columns.
func Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m" + two(int(d.Seconds())%60) + "s"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h" + two(int(d.Minutes())%60) + "m"
	default:
		return strconv.Itoa(int(d.Hours())/24) + "d" + two(int(d.Hours())%24) + "h"
	}
}

func two(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// age is like [Span], but returns whole seconds if d is below 10 s.
func age(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.Itoa(int(max(d, 0).Seconds())) + "s"
	}
	return Span(d)
}

// in returns t in the time zone of the layout.
func (l Layout) in(t time.Time) time.Time {
	if l.Zone == nil {
		return t.UTC()
	}
	return t.In(l.Zone)
}

// Clock returns the time of day of t, with the date if t is not on the day of l.Now. Times in UTC end
// in Z.
func (l Layout) Clock(t time.Time) string {
	t, now := l.in(t), l.in(l.Now)
	layout := time.TimeOnly
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = time.DateTime
	}
	text := t.Format(layout)
	if zone, offset := t.Zone(); zone == "UTC" && offset == 0 {
		text += "Z"
	}
	return text
}

// Stamp returns t with its date and its zone.
func (l Layout) Stamp(t time.Time) string { return l.in(t).Format(time.RFC3339) }

// zone returns a blank and the name of the time zone of t. The result is empty for UTC, because
// times in UTC end in Z.
func (l Layout) zone(t time.Time) string {
	zone, offset := l.in(t).Zone()
	if zone == "UTC" && offset == 0 {
		return ""
	}
	return " " + zone
}

// short is like Clock, but uses at most eight columns: it returns the time of day, or only the date if
// t is more than 20 hours ago. The result is empty if t is zero.
func (l Layout) short(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case l.Now.Sub(t) > 20*time.Hour:
		return l.in(t).Format("Jan 02")
	default:
		return l.in(t).Format(time.TimeOnly)
	}
}

// due returns the time t of a future event, with the time until then.
func (l Layout) due(t time.Time) string {
	if !l.Now.Before(t) {
		return l.Clock(t) + " (now)"
	}
	return l.Clock(t) + " (in " + age(t.Sub(l.Now)) + ")"
}

// plural returns n with a noun. The noun is the parameter one if n is 1, otherwise the parameter
// many.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// controls matches the escape sequences of ECMA-48 for colors and for the cursor.
var controls = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// printable returns r, or a blank if a terminal would interpret r.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
