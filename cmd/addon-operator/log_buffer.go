package main

import (
	"io"
	"sync"
	"time"
)

const (
	// mostBuffered is the maximum size of the pending log lines, in bytes. If no line is pending, a longer line is
	// accepted.
	mostBuffered = 1 << 20
	// longestLogWait is the maximum time that a line waits for space in the buffer. After this time
	// the line is dropped.
	longestLogWait = time.Second
	// flushWithin is the maximum time that close waits for the last lines to be written.
	flushWithin = 2 * time.Second
)

// A logBuffer writes log lines to w in the background. If w is a full pipe that nobody reads, a write to w blocks. The
// operator logs some lines where such a delay would block all its work, for example in a commit of the store. So Write
// waits for at most longestLogWait. After that, the buffer drops lines until w accepts bytes again.
type logBuffer struct {
	w io.Writer
	// dropped is called in the background with the number of dropped lines. dropped may write to w.
	dropped func(lines int)

	mu      sync.Mutex
	pending []byte        // guarded by mu
	lost    int           // number of lines dropped since the last call of drain; guarded by mu
	stuck   bool          // since the last call of drain, a line has waited for space until the timeout, so further lines do not wait; guarded by mu
	closing bool          // set by close; guarded by mu
	ended   bool          // the background goroutine has ended; guarded by mu
	room    chan struct{} // drain closes room when it removes the pending lines, so that there is space again; guarded by mu
	wake    chan struct{}
	done    chan struct{} // closed when run ends
}

func newLogBuffer(w io.Writer, dropped func(lines int)) *logBuffer {
	b := &logBuffer{w: w, dropped: dropped, room: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go b.run()
	return b
}

// Write adds the line p to the pending lines, or drops it if the buffer stays full. When the background goroutine has
// ended, Write writes p to w and returns the result of w. Before that, Write never fails.
func (b *logBuffer) Write(p []byte) (int, error) {
	var patience *time.Timer // limits the time for which p waits for space in the buffer
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

// run writes the pending lines to w until the buffer is closed and empty.
func (b *logBuffer) run() {
	defer close(b.done)
	for {
		lines, lost, ended := b.drain()
		switch {
		case ended:
			return
		case len(lines) == 0 && lost == 0:
			<-b.wake
			continue
		}
		_, _ = b.w.Write(lines) // a failed write cannot be reported
		if lost > 0 {
			b.dropped(lost)
		}
	}
}

// drain removes and returns the pending lines. drain also returns the number of lines that were
// dropped since the previous call, and whether the buffer is closed and empty.
func (b *logBuffer) drain() (lines []byte, lost int, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, lost = b.pending, b.lost
	b.pending, b.lost, b.stuck = nil, 0, false
	b.ended = b.closing && len(lines) == 0 && lost == 0
	close(b.room)
	b.room = make(chan struct{})
	return lines, lost, b.ended
}

// close waits until the pending lines are written, or for flushWithin if w blocks. When the pending
// lines are written, Write writes further lines directly to w.
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
