package workflow

import (
	"fmt"
	"strings"
	"sync"
)

// Limits of the output of an attempt in history, in bytes.
const (
	mostHead = 1 << 10 // of the first lines
	mostTail = 3 << 10 // of the last lines
	mostLine = 1 << 10 // of one line
)

// An output collects the lines that a step prints. Of long output, only the first and the last
// lines are kept.
type output struct {
	mu      sync.Mutex
	head    []string // guarded by mu, like all fields below
	inHead  int      // bytes
	tail    []string
	inTail  int // bytes
	omitted int // number of lines between head and tail
}

// Print adds a line to the output of the attempt. The history has the output of every attempt, even
// of failed attempts. Of long output, the history has only the beginning and the end. If the
// process exits during the attempt, the output is lost. Do can call Print from any goroutine, until
// Do returns.
func (t Task) Print(line string) {
	if t.output != nil {
		t.output.add(line)
	}
}

func (o *output) add(line string) {
	line = strings.ToValidUTF8(line, "?")
	if len(line) > mostLine {
		line = strings.ToValidUTF8(line[:mostLine-len("…")], "") + "…"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tail) == 0 && o.inHead+len(line) < mostHead {
		o.head, o.inHead = append(o.head, line), o.inHead+len(line)+1
		return
	}
	o.tail, o.inTail = append(o.tail, line), o.inTail+len(line)+1
	for o.inTail > mostTail {
		o.inTail -= len(o.tail[0]) + 1
		o.tail, o.omitted = o.tail[1:], o.omitted+1
	}
}

// text returns the lines. If lines were omitted, one line in their place says how many.
func (o *output) text() string {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := append([]string{}, o.head...)
	if o.omitted > 0 {
		lines = append(lines, fmt.Sprintf("… %d lines left out …", o.omitted))
	}
	return strings.Join(append(lines, o.tail...), "\n")
}
