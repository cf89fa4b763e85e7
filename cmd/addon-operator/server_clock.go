package main

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// toleratedSkew is the largest tolerated difference between the clocks of the API server and of
// this process.
const toleratedSkew = 5 * time.Second

// A serverClock compares the clock of the API server, which is in the header Date of each response, with the clock of
// this process.
type serverClock struct {
	now func() time.Time

	mu    sync.Mutex
	skew  time.Duration // guarded by mu
	since time.Time     // when skew began to exceed toleratedSkew; zero while skew is tolerated; guarded by mu
}

// guard returns a transport that compares the clocks at each response of the API server itself; see [ownResponse].
func (c *serverClock) guard(next http.RoundTripper) http.RoundTripper {
	return &clockTransport{c, next}
}

type clockTransport struct {
	clock *serverClock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *clockTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := t.clock.now()
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if !ownResponse(r.URL.Path) {
		return response, nil
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.clock.compare(sent, date, t.clock.now())
	}
	return response, nil
}

// ownResponse reports whether the API server itself certainly responds to requests for path. Requests for other API
// groups can be answered by aggregated API servers with other clocks.
func ownResponse(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/coordination.k8s.io/")
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *clockTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// compare records by how much the API server's clock differs from that of this process. The API server wrote date
// between the times sent and received, so compare measures how far date is outside of this interval. The header Date
// has whole seconds, because the API server drops the fraction. So date can be up to one second early.
func (c *serverClock) compare(sent, date, received time.Time) {
	skew := time.Duration(0)
	switch latest := date.Add(time.Second); {
	case latest.Before(sent):
		skew = latest.Sub(sent)
	case date.After(received):
		skew = date.Sub(received)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = skew
	switch {
	case skew.Abs() <= toleratedSkew:
		c.since = time.Time{}
	case c.since.IsZero():
		c.since = received
	}
}

// wrong returns the time by which the clock of the API server is ahead, and the time at which the
// difference was first seen. skew is negative if the clock of the API server is behind. Both
// results are zero if the difference is tolerated.
func (c *serverClock) wrong() (skew time.Duration, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return 0, time.Time{}
	}
	return c.skew, c.since
}
