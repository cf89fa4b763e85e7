package kube

import (
	"context"
	"encoding/json"
	"io"
	"sync"
)

const (
	// bufferFrames and bufferBytes are the maximum number of frames, and the maximum number of their bytes, that a
	// watch reads while its receiver is still busy with earlier frames. At a limit, the watch stops reading from the
	// connection. One large object may exceed bufferBytes.
	bufferFrames = 256
	bufferBytes  = 2 << 20
)

// buffer contains the frames of a watch that have been read, but not processed yet.
type buffer struct {
	arrived chan struct{} // gets an element when a frame has been added, or no more will come
	freed   chan struct{} // gets an element when frames have been removed

	mu     sync.Mutex
	frames []frame
	bytes  int
	ended  bool
	err    error
}

func newBuffer() *buffer {
	return &buffer{arrived: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// fill reads frames from body into the buffer until body or ctx ends.
func (in *buffer) fill(ctx context.Context, body io.Reader) {
	decoder := json.NewDecoder(body)
	for {
		var f frame
		if err := decoder.Decode(&f); err != nil {
			in.end(err)
			return
		}
		for full := in.put(f); full; full = in.full() {
			select {
			case <-ctx.Done():
				in.end(ctx.Err())
				return
			case <-in.freed:
			}
		}
	}
}

// put adds the frame f to the buffer, and reports whether the buffer is now full.
func (in *buffer) put(f frame) bool {
	in.mu.Lock()
	in.frames = append(in.frames, f)
	in.bytes += len(f.Object)
	in.mu.Unlock()
	signal(in.arrived)
	return in.full()
}

func (in *buffer) full() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.frames) >= bufferFrames || in.bytes >= bufferBytes
}

// end records that no more frames will come, with err as the reason.
func (in *buffer) end(err error) {
	in.mu.Lock()
	in.ended, in.err = true, err
	in.mu.Unlock()
	signal(in.arrived)
}

// drain removes all frames from the buffer and returns them. If no more frames will come, the result ended is true and
// err is the reason.
func (in *buffer) drain() (frames []frame, ended bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	frames, in.frames, in.bytes = in.frames, nil, 0
	signal(in.freed)
	return frames, in.ended, in.err
}

// signal sends an element to c, which has the capacity 1. If c already has an element, signal does nothing.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
