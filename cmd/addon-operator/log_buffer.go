package main

import (
	"io"
	"sync"
	"time"
)

const (
	// mostBuffered is how many bytes of log lines wait to be written.
	mostBuffered = 1 << 20
	// longestLogWait is how long a line waits for room before lines are dropped.
	longestLogWait = time.Second
	// flushWithin bounds the time the end of the process waits for the last lines.
	flushWithin = 2 * time.Second
)

// A logBuffer writes log lines to w in the background. A pipe that nobody reads blocks its
// writers, and lines are logged where others wait, as in a commit of the store. So the
// buffer makes the writer of a line wait only for a moment; then it drops lines until w
// accepts bytes again.
type logBuffer struct {
	w io.Writer
	// dropped is called in the background with the number of lines that were dropped. It
	// writes to w itself.
	dropped func(lines int)

	mu      sync.Mutex
	pending []byte        // guarded by mu
	lost    int           // lines dropped since dropped was last called; guarded by mu
	stuck   bool          // a line could not be written since lines were last taken; guarded by mu
	closing bool          // the last lines are written; guarded by mu
	ended   bool          // nothing is written in the background any more; guarded by mu
	room    chan struct{} // closed when lines are taken, as w has accepted those before; guarded by mu
	wake    chan struct{}
	done    chan struct{} // closed at the end of run
}

func newLogBuffer(w io.Writer, dropped func(lines int)) *logBuffer {
	b := &logBuffer{w: w, dropped: dropped, room: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go b.run()
	return b
}

// Write takes the line p. It never fails.
func (b *logBuffer) Write(p []byte) (int, error) {
	var patience *time.Timer // of a line that finds no room
	late := false
	for {
		b.mu.Lock()
		switch {
		case b.ended:
			b.mu.Unlock()
			return b.w.Write(p)
		case len(b.pending) == 0 || len(b.pending)+len(p) <= mostBuffered:
			b.pending = append(b.pending, p...)
			b.mu.Unlock()
			b.raise()
			return len(p), nil
		case b.stuck || late:
			b.lost++
			b.mu.Unlock()
			return len(p), nil
		}
		room := b.room
		b.mu.Unlock()
		if patience == nil {
			patience = time.NewTimer(longestLogWait)
			defer patience.Stop()
		}
		select {
		case <-room:
		case <-patience.C:
			late = true
			b.mu.Lock()
			b.stuck = b.stuck || room == b.room
			b.mu.Unlock()
		}
	}
}

func (b *logBuffer) raise() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run writes pending lines until the buffer is closed and empty.
func (b *logBuffer) run() {
	defer close(b.done)
	for {
		lines, lost, ended := b.take()
		switch {
		case ended:
			return
		case len(lines) == 0 && lost == 0:
			<-b.wake
			continue
		}
		_, _ = b.w.Write(lines) // there is no other place to say so
		if lost > 0 {
			b.dropped(lost)
		}
	}
}

// take returns the lines to write now, how many were dropped behind them, and whether the
// buffer has ended. Then there is room for lines.
func (b *logBuffer) take() (lines []byte, lost int, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, lost = b.pending, b.lost
	b.pending, b.lost, b.stuck = nil, 0, false
	b.ended = b.closing && len(lines) == 0 && lost == 0
	close(b.room)
	b.room = make(chan struct{})
	return lines, lost, b.ended
}

// close writes the pending lines, unless w accepts nothing. Later lines are written at once.
func (b *logBuffer) close() {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.raise()
	t := time.NewTimer(flushWithin)
	defer t.Stop()
	select {
	case <-b.done:
	case <-t.C:
	}
}
