package jq

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// maxHelpers is the maximum number of helpers. It limits the memory of all filters.
	maxHelpers = 2
	// grace is the CPU time after maxTime at which a helper ends itself. If a helper has not
	// answered after maxWait, it is killed.
	grace   = time.Second
	maxWait = 5 * time.Minute
	// startTries is the maximum number of attempts to start a helper, and startPause is the pause
	// between them. A start can fail if the limit of processes is reached for a moment.
	startTries = 3
	startPause = 200 * time.Millisecond
	// lostTries is the maximum number of attempts to run a filter if another program kills the
	// helper, possibly before the filter started.
	lostTries = 3
)

// helpers runs the filters of this process that are not plain, and those that exceed the limits of
// plain programs.
var helpers = &pool{free: make(chan struct{}, maxHelpers)}

// pool contains at most maxHelpers helpers. Each helper runs one filter at a time.
type pool struct {
	free chan struct{} // holds an element for each busy helper

	mu   sync.Mutex
	idle []*helper
}

// helper is a helper process and its pipes.
type helper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	// used is true if the helper has run a filter.
	used bool
}

// errLost is the error of a run whose helper has ended for a reason other than the filter.
var errLost = errors.New("the process that runs jq filters was killed")

// errMemory is the error of a filter that exceeds the memory of a helper.
var errMemory = exceeded("needs more than %d MiB of memory", memoryLimit>>20)

// apply runs a program on a text in a helper. If the filter fails, the error is a *FilterError.
// Otherwise it wraps the error of ctx, or the reason why there is no helper.
func (p *pool) apply(ctx context.Context, program string, text []byte) (json.RawMessage, error) {
	select {
	case p.free <- struct{}{}:
		defer func() { <-p.free }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a process that runs jq filters: %w", ctx.Err())
	}
	for tries := 1; ; tries++ {
		h, err := p.acquire(ctx, tries > 1)
		if err != nil {
			return nil, err
		}
		reused := h.used
		result, err := p.run(ctx, h, program, text)
		// If the helper has run other filters before, they may have used up its memory.
		again := errors.Is(err, errLost) && tries < lostTries || errors.Is(err, errMemory) && reused
		if !again {
			return result, err
		}
	}
}

// run runs a program on a text in h. Then it returns h to the pool, or kills h if the run has
// failed for a reason other than the filter.
func (p *pool) run(ctx context.Context, h *helper, program string, text []byte) (json.RawMessage, error) {
	h.used = true
	// Usually the helper itself ends a filter after its maximum time, and answers with the reason.
	// It is killed only if it does not answer. The end of the operator does not interrupt a filter,
	// because the filter ends soon.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = h.cmd.Process.Kill() }) // fails only if the helper has ended
	result, err := h.ask(program, text)
	stop()
	if failure := (*FilterError)(nil); err == nil || errors.As(err, &failure) {
		p.put(h)
		return result, err
	}
	return nil, h.ended(err)
}

// acquire returns an idle helper. If there is none, it starts a helper. If fresh is true, it always
// starts a helper, which replaces an idle one.
func (p *pool) acquire(ctx context.Context, fresh bool) (h *helper, err error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		h, p.idle = p.idle[last], p.idle[:last]
	}
	p.mu.Unlock()
	if h != nil && !fresh {
		return h, nil
	}
	if h != nil {
		_ = h.ended(nil) // the new helper replaces h
	}
	for range startTries {
		if h, err = startHelper(ctx); err == nil {
			return h, nil
		}
		select {
		case <-time.After(startPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("start a process that runs jq filters: %w", err)
}

func (p *pool) put(h *helper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, h)
}

// startHelper starts this executable as a helper. The helper ends when its stdin is closed, and so
// when this process ends.
func startHelper(ctx context.Context) (*helper, error) {
	const self = "/proc/self/exe" // works even if the file of the executable was replaced
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Args = []string{helperName}
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Dir = os.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not end the helper
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, err // Start has closed the pipes
	}
	return &helper{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10)}, nil
}

// ask sends a request and reads the answer.
func (h *helper) ask(program string, text []byte) (json.RawMessage, error) {
	if err := writeRequest(h.in, program, text); err != nil {
		return nil, err
	}
	status, err := h.out.ReadByte()
	if err != nil {
		return nil, err
	}
	answer, err := readPart(h.out, nil)
	switch {
	case err != nil:
		return nil, err
	case status == statusDone:
		return answer, nil
	}
	failure := &FilterError{}
	if err := json.Unmarshal(answer, failure); err != nil {
		return nil, err
	}
	return nil, failure
}

// ended kills a helper, waits for its end, and returns the error for the filter that it was
// running. The parameter asked is the error of the request.
func (h *helper) ended(asked error) error {
	_ = h.in.Close()
	_ = h.cmd.Process.Kill() // fails only if the helper has ended
	err := h.cmd.Wait()
	switch status, _ := h.cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case status.Exited() && status.ExitStatus() == exitMemory:
		return errMemory
	case status.Exited() && status.ExitStatus() == exitTime:
		return errEndless
	default:
		return fmt.Errorf("%w: %w", errLost, cmp.Or(err, asked))
	}
}

// The statuses of an answer. A request consists of a program and a text, and an answer of a status
// and a text. The length of each program and text precedes it.
const (
	statusDone   = 0
	statusFailed = 1
)

func writeRequest(w io.Writer, program string, text []byte) error {
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 8+len(program)), uint32(len(program))) //nolint:gosec // at most maxText
	head = append(head, program...)
	head = binary.BigEndian.AppendUint32(head, uint32(len(text))) //nolint:gosec // an object of the API server has some MiB at most
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// readPart reads a program or a text, after its length. If the slice into is large enough, readPart
// uses it for the result.
func readPart(r io.Reader, into []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if cap(into) < n {
		into = make([]byte, n)
	}
	into = into[:n]
	_, err := io.ReadFull(r, into)
	return into, err
}
