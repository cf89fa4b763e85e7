package simulate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	errUnreachable = errors.New("connect: connection refused")
	errBroken      = errors.New("connection reset by peer")
)

// A fault makes the next requests fail, or only the next requests that change objects. The field left is the number of
// requests that will fail.
type fault struct {
	code   int  // HTTP status of the response; 0 breaks the connection
	after  bool // whether the request is executed before it fails
	writes bool // whether only requests that change objects are affected
	left   int
}

func (f *fault) String() string {
	what := "break the connection"
	if f.code != 0 {
		what = fmt.Sprintf("are answered %d", f.code)
	}
	when := "before"
	if f.after {
		when = "after"
	}
	which := "requests"
	if f.writes {
		which = "writes"
	}
	return fmt.Sprintf("the next %d %s %s %s they are carried out", f.left, which, what, when)
}

// A network is the connection between the operator and the API server, with its current faults.
type network struct {
	server *apiServer

	mu     sync.Mutex
	faults []*fault
	silent chan struct{} // nil while the API server answers; otherwise closed when it answers again
	down   bool
	cut    chan struct{} // closed and replaced by a new channel when all watches are broken
}

func newNetwork() *network {
	return &network{server: newAPIServer(), cut: make(chan struct{})}
}

// breakWatches ends all watches.
func (n *network) breakWatches() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.cut)
	n.cut = make(chan struct{})
}

// setDown makes the API server unreachable if down is true, and reachable otherwise. If down is true, it also ends all
// watches.
func (n *network) setDown(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.breakWatches()
	}
}

// setSilent starts or ends a silence: a time in which no request is answered and no watch delivers anything.
func (n *network) setSilent(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case silent && n.silent == nil:
		n.silent = make(chan struct{})
	case !silent && n.silent != nil:
		close(n.silent)
		n.silent = nil
	}
}

// heal ends all faults, silences and outages of the network.
func (n *network) heal() {
	n.setSilent(false)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults, n.down = nil, false
}

// take returns the fault that makes the call c fail, and counts the call. take returns nil if no fault applies to c.
func (n *network) take(c *call) *fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, f := range n.faults {
		if f.writes && !c.writes() {
			continue
		}
		if f.left--; f.left == 0 {
			n.faults = append(n.faults[:i:i], n.faults[i+1:]...)
		}
		return f
	}
	return nil
}

func (n *network) state() (silent <-chan struct{}, down bool, cut <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent, n.down, n.cut
}

// A transport sends the requests of one process of the operator to the simulated API server.
type transport struct {
	*network
	process *process
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.process.dead.Load() {
		return nil, errUnreachable
	}
	_, down, _ := t.state()
	if list, ok := discovery(r.URL.Path); ok { // discovery passes no gate: its callers hold mutexes during the request, and other goroutines can wait for these
		if down {
			return nil, errUnreachable
		}
		return answer(r, http.StatusOK, marshal(list)), nil
	}
	c, err := parse(r)
	if err != nil {
		refused := asStatus(err)
		return answer(r, refused.code, refused.text()), nil
	}
	paused := t.process.pass("request " + c.String())
	if err := t.hear(r.Context(), c); err != nil {
		return nil, err
	}
	f := t.take(c)
	if f != nil && !f.after {
		return t.fail(r, c, f)
	}
	if c.watches() {
		return t.watch(r, c)
	}
	if c.writes() && c.at.resource != "leases" && !paused {
		t.process.judge(c.String())
	}
	code, body, err := t.server.serve(c)
	if err != nil {
		refused := asStatus(err)
		code, body = refused.code, refused.text()
	}
	if c.at == reportAddress && c.writes() && err == nil && f == nil {
		t.process.hooks.tookEffect()
		if t.process.crashAtEffect {
			t.process.crashAtEffect = false
			return nil, t.process.die()
		}
	}
	if f != nil {
		t.process.note("%s is carried out, and the answer is lost", c)
		return t.fail(r, c, f)
	}
	if c.writes() && (c.at.resource != "leases" || code != http.StatusOK) {
		t.process.note("%s: %d", c, code)
	}
	return answer(r, code, body), nil
}

// hear returns nil when the API server receives the call c. During a silence it waits. It returns an error if the API
// server cannot be reached, if the process was killed, or if ctx, the context of the request, has ended.
func (t *transport) hear(ctx context.Context, c *call) error {
	for {
		silent, down, _ := t.state()
		switch {
		case t.process.dead.Load() || down:
			return errUnreachable
		case ctx.Err() != nil:
			return ctx.Err()
		case silent == nil:
			return nil
		}
		select {
		case <-silent:
		case <-ctx.Done():
		case <-t.process.killed:
		}
		t.process.pass("wake " + c.String())
	}
}

func (t *transport) fail(r *http.Request, c *call, f *fault) (*http.Response, error) {
	t.process.note("%s fails: %d", c, f.code)
	if f.code == 0 {
		return nil, errBroken
	}
	reason := map[int]metav1.StatusReason{
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable, http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusGone: metav1.StatusReasonExpired,
	}[f.code]
	resp := answer(r, f.code, refuse(f.code, reason, "the API server fails as planned").text())
	if f.code == http.StatusTooManyRequests {
		resp.Header.Set("Retry-After", "1")
	}
	return resp, nil
}

func answer(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// watch responds to a watch request. The body of the response is a stream of watch events, and each event is delivered
// when the scheduler opens a gate.
func (t *transport) watch(r *http.Request, c *call) (*http.Response, error) {
	after, err := strconv.Atoi(c.query.Get("resourceVersion"))
	if err == nil {
		_, _, err = t.server.next(c, after)
	}
	if err != nil {
		refused := asStatus(err)
		return answer(r, refused.code, refused.text()), nil
	}
	_, _, cut := t.state()
	resp := answer(r, http.StatusOK, nil)
	resp.ContentLength = -1
	resp.Body = &stream{transport: t, call: c, ctx: r.Context(), version: after, cut: cut, closed: make(chan struct{})}
	return resp, nil
}

// A stream is the body of the response to a watch request. version is the version up to which it has delivered the
// changes.
type stream struct {
	*transport
	call    *call
	ctx     context.Context //nolint:containedctx // context of the request
	version int
	cut     <-chan struct{}
	rest    []byte
	closed  chan struct{}
	once    sync.Once
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		changed := s.server.changed
		silent, _, _ := s.state()
		if err := s.over(); err != nil {
			s.process.pass("cut " + s.call.String()) // a gate, so that streams that are cut at the same time end in an order that the seed decides
			return 0, err
		}
		frame, version, err := s.server.next(s.call, s.version)
		if silent == nil && err == nil && len(frame) == 0 {
			s.version = version // the watch selects none of the changes up to version
		}
		if silent != nil || err == nil && len(frame) == 0 {
			select { // whichever case is chosen, the loop then checks all conditions in a fixed order
			case <-s.closed:
			case <-s.ctx.Done():
			case <-s.cut:
			case <-s.process.killed:
			case <-changed:
			case <-silent: // nil if there is no silence
			}
			continue
		}
		s.process.pass("deliver " + s.call.String())
		if err := s.over(); err != nil {
			return 0, err
		}
		s.fill()
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// over returns the reason why the stream has ended. over returns nil if the stream has not ended.
func (s *stream) over() error {
	select {
	case <-s.closed:
		return io.EOF
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-s.cut:
		return io.ErrUnexpectedEOF
	case <-s.process.killed:
		return errBroken
	default:
		return nil
	}
}

// fill reads the next watch event, if there is one, for Read to return.
func (s *stream) fill() {
	frame, version, err := s.server.next(s.call, s.version)
	if err != nil {
		s.rest = frameOf("ERROR", asStatus(err).text())
		return
	}
	s.version, s.rest = version, frame
	if len(frame) > 0 {
		s.process.note("watch of %s delivers up to version %d", strings.TrimPrefix(s.call.String(), "WATCH "), version)
	}
}

// until waits for the duration d. If ctx ends or the process is killed meanwhile, it returns an error at once.
func (p *process) until(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.killed:
		return errKilled
	}
}
