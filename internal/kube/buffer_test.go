package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestBufferReadsAheadOnlySoFar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const frames = 1000
		reader, writer := io.Pipe()
		var written atomic.Int64
		go func() {
			for i := range frames {
				fmt.Fprintf(writer, `{"type":"ADDED","object":{"i":%d}}`+"\n", i)
				written.Add(1)
			}
			writer.Close()
		}()
		in := newBuffer()
		go in.fill(t.Context(), reader)
		synctest.Wait()
		if n := written.Load(); n > bufferFrames+10 {
			t.Errorf("%d frames were read ahead", n)
		}
		next := 0
		for ended := false; !ended; {
			<-in.arrived
			var got []frame
			var err error
			got, ended, err = in.drain()
			for _, f := range got {
				if want := fmt.Sprintf(`{"i":%d}`, next); string(f.Object) != want {
					t.Fatalf("got %s, want %s", f.Object, want)
				}
				next++
			}
			if ended && !errors.Is(err, io.EOF) {
				t.Errorf("it ended with %v", err)
			}
			synctest.Wait()
		}
		if next != frames {
			t.Errorf("%d of %d frames came", next, frames)
		}
	})
}

func TestFullBufferReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in := newBuffer()
		text := `{"type":"ADDED","object":"` + strings.Repeat("x", bufferBytes) + `"}`
		go in.fill(ctx, strings.NewReader(text+text))
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got, ended, err := in.drain(); len(got) != 1 || !ended || !errors.Is(err, context.Canceled) {
			t.Errorf("took %d frames, %v, %v", len(got), ended, err)
		}
	})
}

func TestWorkersEndWithTheirRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c workers
		var running atomic.Int64
		work := func(ctx context.Context) {
			running.Add(1)
			<-ctx.Done()
			running.Add(-1)
		}
		stopEarly := c.start(work)
		c.start(work)
		stopEarly()
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() { c.run(ctx); ended = true }()
		synctest.Wait()
		stop := c.start(work)
		synctest.Wait()
		if n := running.Load(); n != 2 {
			t.Errorf("%d run, want the one started before that was not stopped, and the one after", n)
		}
		stop()
		synctest.Wait()
		if n := running.Load(); n != 1 || ended {
			t.Errorf("%d run after one was stopped, ended %v", n, ended)
		}
		cancel()
		synctest.Wait()
		if n := running.Load(); n != 0 || !ended {
			t.Errorf("%d run after the end, ended %v", n, ended)
		}
	})
}
