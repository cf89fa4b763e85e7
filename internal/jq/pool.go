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
	// maxHelpers is the maximum number of helpers. So it also limits the memory of all helpers together.
	maxHelpers = 2
	// grace is the CPU time for which a helper may still run its filter after maxTime. Then the helper ends itself. If
	// a helper has not answered after the wall-clock time maxWait, it is killed.
	grace   = time.Second
	maxWait = 5 * time.Minute
	// startTries is the maximum number of attempts to start a helper, and startPause is the pause between two
	// attempts. An attempt can fail if the system temporarily allows no further processes.
	startTries = 3
	startPause = 200 * time.Millisecond
	// lostTries is the maximum number of attempts to run a filter if its helpers are killed, by another program or
	// after maxWait.
	lostTries = 3
)

// helpers runs the filters that this process cannot run itself, because their programs are not plain, their inputs are
// too large, or they have exceeded a limit in this process.
var helpers = &pool{free: make(chan struct{}, maxHelpers)}

// pool has at most maxHelpers helpers, each of which runs one filter at a time.
type pool struct {
	free chan struct{} // has one element for each filter that is being run

	mu   sync.Mutex
	idle []*helper
}

// helper is a helper with the pipes to its stdin and from its stdout.
type helper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	// used is true if the helper has already been asked to run a filter.
	used bool
}

// errLost means that a helper has ended during a run without an answer, and its exit status is neither exitMemory nor
// exitTime. Usually another program has killed the helper, or it has not answered within maxWait.
var errLost = errors.New("the process that runs jq filters was killed")

// errMemory is the error of a filter that needs more memory than a helper may have.
var errMemory = exceeded("needs more than %d MiB of memory", memoryLimit>>20)

// apply runs program in a helper, with text as the input, and returns the result. If the filter fails, the error is a
// *FilterError. Any other error wraps the error of ctx, errLost, or the reason why no helper could be started.
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
		// If the helper has already run other filters, they may have used up its memory. So try again with a new
		// helper.
		again := errors.Is(err, errLost) && tries < lostTries || errors.Is(err, errMemory) && reused
		if !again {
			return result, err
		}
	}
}

// run runs program in h, with text as the input, and returns the result. If h has answered, run then gives h back to
// the pool. Otherwise it kills h.
func (p *pool) run(ctx context.Context, h *helper, program string, text []byte) (json.RawMessage, error) {
	h.used = true
	// Usually the helper itself ends a filter after maxTime, and says so in its answer. The helper is killed only if it
	// does not answer. If the operator ends, the filter is not interrupted, because a run has a time limit anyway.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = h.cmd.Process.Kill() }) // fails only if the helper has already ended
	result, err := h.ask(program, text)
	stop()
	if failure := (*FilterError)(nil); err == nil || errors.As(err, &failure) {
		p.put(h)
		return result, err
	}
	return nil, h.ended(err)
}

// acquire returns a helper. If fresh is false and there is an idle helper, acquire returns this one. Otherwise it
// starts a new helper. If fresh is true, the new helper replaces an idle helper, if there is one.
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

// startHelper starts this executable as a helper. The helper ends when its stdin is closed, and so it also ends when
// this process ends.
func startHelper(ctx context.Context) (*helper, error) {
	const self = "/proc/self/exe" // this executable, even if its file has been replaced
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
		return nil, err // in this case, Start has closed the pipes
	}
	return &helper{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10)}, nil
}

// ask sends a request to h and reads the answer. ask returns the result of the program. If the program has failed, the
// error is a *FilterError.
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

// ended kills h, waits until it has ended, and returns the error for the filter that it was running. The argument asked
// is the error that ask has returned.
func (h *helper) ended(asked error) error {
	_ = h.in.Close()
	_ = h.cmd.Process.Kill() // fails only if the helper has already ended
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

// These are the statuses of an answer. A request consists of a program and its input. An answer consists of a status
// and a text, which is the result or a *FilterError as JSON. The length in bytes precedes each program, each input, and
// the text of each answer.
const (
	statusDone   = 0
	statusFailed = 1
)

func writeRequest(w io.Writer, program string, text []byte) error {
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 8+len(program)), uint32(len(program))) //nolint:gosec // at most maxText
	head = append(head, program...)
	head = binary.BigEndian.AppendUint32(head, uint32(len(text))) //nolint:gosec // an object in the API server has at most some MiB
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// readPart reads the number of bytes of a part of a request or an answer, and then returns that part. The result uses
// the memory of the given slice if that is large enough.
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
