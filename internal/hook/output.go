package hook

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"addon-operator/internal/redact"
)

// Stream says to which stream a hook has printed a line.
type Stream string

// The two streams of a process.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

const (
	maxLine = 10_000  // maximum number of characters in a line that is passed on
	maxTail = 4 << 10 // maximum size, in bytes, of the end of an output that an error or a reason quotes
	// maxKept is larger than maxTail, so that a secret in the tail is recognized even if its name is before the tail.
	maxKept = 2 * maxTail
)

// lineWriter splits the output of a hook on one stream into lines, and calls pass for each line. The lineWriters of
// both streams share the mutex in the field turn, so that pass is not called concurrently.
type lineWriter struct {
	stream Stream
	pass   func(Stream, string)
	turn   *sync.Mutex
	line   []byte // the incomplete last line, cut off after as many bytes as maxLine characters can have
	cut    bool
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.add(p)
			return n, nil
		}
		w.add(p[:end])
		w.flush()
		p = p[end+1:]
	}
}

func (w *lineWriter) add(p []byte) {
	if room := maxLine*utf8.UTFMax - len(w.line); len(p) > room {
		p = p[:room]
		w.cut = true
	}
	w.line = append(w.line, p...)
}

func (w *lineWriter) flush() {
	line := strings.TrimSuffix(string(w.line), "\r")
	if w.cut || utf8.RuneCountInString(line) > maxLine {
		line = firstRunes(line, maxLine-1) + "…"
	}
	w.line, w.cut = w.line[:0], false
	w.turn.Lock()
	defer w.turn.Unlock()
	w.pass(w.stream, line)
}

// close passes on the last line if it does not end with a newline.
func (w *lineWriter) close() {
	if len(w.line) > 0 {
		w.flush()
	}
}

func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// tailWriter keeps the last maxKept bytes that are written to it.
type tailWriter struct {
	kept []byte
	cut  bool
}

func (w *tailWriter) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	if over := len(w.kept) - maxKept; over > 0 {
		w.kept = w.kept[:copy(w.kept, w.kept[over:])]
		w.cut = true
	}
	return len(p), nil
}

// text returns the last maxTail kept bytes as text, with marks in place of likely secrets, because people see the text
// in errors. The text has no white space at the beginning and end, and no incomplete first character. If earlier bytes
// are missing, the text starts with "…".
func (w *tailWriter) text() string {
	kept, cut := w.kept, w.cut
	if cut {
		// The first line is incomplete, and perhaps the name of a secret is missing in it.
		if _, lines, _ := bytes.Cut(kept, []byte{'\n'}); len(bytes.TrimSpace(lines)) > 0 {
			kept = lines
		}
	}
	text := redact.Text(strings.TrimSpace(string(kept)))
	if over := len(text) - maxTail; over > 0 {
		text, cut = text[over:], true
	}
	for cut && text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	if cut {
		return "…" + strings.TrimSpace(text)
	}
	return text
}

// both is a writer that writes to two other writers.
type both [2]io.Writer

func (w both) Write(p []byte) (int, error) {
	_, _ = w[0].Write(p) // the writers of this package return no errors
	return w[1].Write(p)
}

// boundWriter keeps the bytes that are written to it, up to the maximum in the field most. It counts all further bytes
// in the field over.
type boundWriter struct {
	most int
	kept []byte
	over int
}

func (w *boundWriter) Write(p []byte) (int, error) {
	n := len(p)
	if room := w.most - len(w.kept); n > room {
		w.over += n - room
		p = p[:room]
	}
	w.kept = append(w.kept, p...)
	return n, nil
}

// pump copies the output of a hook from a pipe to a writer, until all processes have closed the pipe. A child process
// of a hook may keep the pipe open after the hook has ended. So the method release sets a read deadline. After the
// deadline, pump copies the current content of the pipe and returns. The output of the hook itself is then complete,
// because the hook had written it before it ended.
func pump(from *os.File, to io.Writer) {
	buf := make([]byte, 8<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_, _ = to.Write(buf[:n]) // the writers of this package return no errors
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			drain(from, to)
		}
		if err != nil {
			return
		}
	}
}

// drain copies the current content of a pipe to a writer, without waiting for further output.
func drain(from *os.File, to io.Writer) {
	conn, err := from.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		if err != nil || waiting <= 0 {
			return
		}
		buf := make([]byte, waiting)
		if n, err := unix.Read(int(fd), buf); err == nil && n > 0 {
			_, _ = to.Write(buf[:n])
		}
	})
}
