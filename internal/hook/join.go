package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Limits of a buffered JSON object that is written over several lines.
const (
	joinLines = 200
	joinBytes = 64 << 10
)

// joiner calls pass for each line. If a JSON object spans several lines, joiner buffers them and
// calls pass with the object as one line. If the buffered lines are not a JSON object, joiner calls
// pass with each line unchanged.
type joiner struct {
	pass func(Stream, string)
	held map[Stream][]string
	size map[Stream]int
}

func newJoiner(pass func(Stream, string)) *joiner {
	return &joiner{pass: pass, held: map[Stream][]string{}, size: map[Stream]int{}}
}

// line processes one line of a stream.
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
	default: // the buffered lines are not an object, but this line may start an object
		j.release(stream)
		j.line(stream, line)
	}
}

func (j *joiner) hold(stream Stream, lines []string, size int) {
	j.held[stream], j.size[stream] = lines, size
}

// release passes on the buffered lines of a stream.
func (j *joiner) release(stream Stream) {
	lines := j.held[stream]
	j.hold(stream, nil, 0)
	for _, line := range lines {
		j.pass(stream, line)
	}
}

// readObject returns text as one line if it is a JSON object. The result partial is true if text is
// the beginning of a JSON object.
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
	if err := json.Compact(&line, raw); err != nil { // the value was read, so it is valid
		return "", false
	}
	return line.String(), false
}
