package workflow

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func TestOutputKeepsTheFirstAndTheLastLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		want  string // empty means all lines
	}{
		"none":      {nil, ""},
		"short":     {[]string{"a", "", "b"}, ""},
		"long line": {[]string{"a", strings.Repeat("ü", 2000), "b"}, "a\n" + strings.Repeat("ü", 510) + "…\nb"},
		"no text":   {[]string{"a\xffb"}, "a?b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o output
			for _, line := range c.lines {
				o.add(line)
			}
			want := c.want
			if want == "" {
				want = strings.Join(c.lines, "\n")
			}
			if got := o.text(); got != want {
				t.Errorf("output is %q, want %q", got, want)
			}
		})
	}
}

func TestLongOutputIsBoundedAndCountsWhatItOmits(t *testing.T) {
	t.Parallel()
	var o output
	const n = 10_000
	for i := range n {
		o.add(fmt.Sprintf("line %05d", i))
	}
	text := o.text()
	if len(text) > mostHead+mostTail+100 || len(text) < mostTail {
		t.Errorf("%d bytes are kept", len(text))
	}
	lines := strings.Split(text, "\n")
	if lines[0] != "line 00000" || lines[len(lines)-1] != fmt.Sprintf("line %05d", n-1) {
		t.Errorf("the first line is %q, the last %q", lines[0], lines[len(lines)-1])
	}
	if want := fmt.Sprintf("… %d lines left out …", n-len(lines)+1); !strings.Contains(text, "\n"+want+"\n") {
		t.Errorf("no line says %q", want)
	}
}

func TestOutputOfSeveralGoroutinesIsWhole(t *testing.T) {
	t.Parallel()
	var o output
	var printing sync.WaitGroup
	for i := range 8 {
		printing.Go(func() {
			for range 200 {
				Task{output: &o}.Print(strings.Repeat(string(rune('a'+i)), 20))
			}
		})
	}
	printing.Wait()
	for line := range strings.SplitSeq(o.text(), "\n") {
		if whole := strings.Trim(line, line[:1]) == "" && len(line) == 20; !whole && !strings.HasPrefix(line, "…") {
			t.Errorf("line %q", line)
		}
	}
	if !utf8.ValidString(o.text()) {
		t.Error("the output is not valid UTF-8")
	}
	Task{}.Print("to nobody")
}
