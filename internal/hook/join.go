package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Limits for the lines that joiner buffers as the beginning of a JSON object.
const (
	joinLines = 200
	joinBytes = 64 << 10
)

// A joiner passes on the lines that a hook prints, by calling pass for each. If a JSON object spans several lines, the
// joiner buffers these lines and passes on the object as one line. If buffered lines are not a JSON object, or reach a
// limit before the object ends, the joiner passes on each of them unchanged.
type joiner struct {
	pass func(Stream, string)
	held map[Stream][]string
	size map[Stream]int
}

func newJoiner(pass func(Stream, string)) *joiner {
	return &joiner{pass: pass, held: map[Stream][]string{}, size: map[Stream]int{}}
}

// line processes one line that the hook has printed to a stream. It passes the line on, or buffers it.
func (j *joiner) line(stream Stream, line string) {
	lines := append(j.held[stream], line)
	size := j.size[stream] + len(line) + 1
	object, partial := readObject(strings.Join(lines, "\n"))
	switch {
	case object != "" && len(lines) > 1:
		j.hold(stream, nil, 0)
		j.pass(stream, object)
	case partial && len(lines) < joinLines && size < joinBytes:
		j.hold(stream, lines, size)
	case len(lines) == 1:
		j.pass(stream, line)
	default: // the lines are not an object, but the last one may be the start of an object
		j.release(stream)
		j.line(stream, line)
	}
}

func (j *joiner) hold(stream Stream, lines []string, size int) {
	j.held[stream], j.size[stream] = lines, size
}

// release passes on the buffered lines of a stream unchanged.
func (j *joiner) release(stream Stream) {
	lines := j.held[stream]
	j.hold(stream, nil, 0)
	for _, line := range lines {
		j.pass(stream, line)
	}
}

// readObject returns text as one line if text is a JSON object. The result partial is true if text may be the beginning
// of a JSON object, but is incomplete.
func readObject(text string) (object string, partial bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		return "", false
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	err := decoder.Decode(&raw)
	if err != nil || decoder.InputOffset() != int64(len(text)) {
		return "", errors.Is(err, io.ErrUnexpectedEOF)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil { // never happens, because the decoder has accepted the value
		return "", false
	}
	return line.String(), false
}
