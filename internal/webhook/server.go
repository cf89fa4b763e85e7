package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"addon-operator/internal/hook"
)

// The maximum sizes of reviews in bytes. An AdmissionReview contains the old and the new version of
// one object. A ConversionReview may contain all objects of a list response.
const (
	maxAdmission  = 16 << 20
	maxConversion = 64 << 20
)

// Options configure a [Server].
type Options struct {
	// Ask calls the hook of a review request.
	Ask Ask
	// AtOnce is the maximum number of hooks that the server runs concurrently. A value below 1 means
	// 1. Further requests wait until a hook ends. A request fails shortly before the API server stops
	// waiting for its response.
	AtOnce int
	// Clock returns the current time.
	Clock func() time.Time
	// Observe is called after each review, also after a review without a valid response. It may be
	// nil.
	Observe func(Report)
	// Log receives connection errors.
	Log *stdlog.Logger
}

// Server responds to reviews. It is safe for concurrent use. Create one with [NewServer].
type Server struct {
	options Options
	places  *semaphore.Weighted
	routes  atomic.Pointer[routes]

	mu      sync.Mutex
	servers []*http.Server // guarded by mu
	stopped bool           // guarded by mu
}

// routes contains the bindings that are served, and the paths of the bindings that were served before.
type routes struct {
	admissions  map[string]Admission
	conversions map[string][]link // conversion steps by the name of the CustomResourceDefinition
	complete    bool              // see Table.Complete
	// withdrawn contains the paths of all bindings in earlier tables, with the types of the bindings. The API server
	// may call the path of a removed binding until it has loaded the new configuration.
	withdrawn map[string]hook.Type
}

// NewServer returns a server without bindings, which does not listen yet.
func NewServer(o Options) *Server {
	s := &Server{options: o, places: semaphore.NewWeighted(int64(max(1, o.AtOnce)))}
	s.routes.Store(&routes{})
	return s
}

// Serve replaces the table of served bindings with t. Until the process ends, the server also
// answers requests for bindings that have been removed from the table, as if there were no webhook.
// It allows admission requests, and changes only the version of objects to convert. But while the table is not
// complete, it rejects requests for removed conversions, because a binding that is not in the table yet may convert the
// objects.
func (s *Server) Serve(t Table) {
	before := s.routes.Load()
	now := &routes{admissions: map[string]Admission{}, conversions: map[string][]link{}, complete: t.Complete, withdrawn: map[string]hook.Type{}}
	for _, a := range t.Admissions {
		now.admissions[a.path()] = a
	}
	for crd, conversions := range t.crds() {
		now.conversions[crd] = links(conversions)
	}
	maps.Copy(now.withdrawn, before.withdrawn)
	for path, a := range before.admissions {
		now.withdrawn[path] = a.hookType()
	}
	for crd := range before.conversions {
		now.withdrawn[crdPath(crd)] = hook.TypeConversion
	}
	s.routes.Store(now)
}

// Listen starts to serve on an address with the certificate of the rotator, and returns the port.
// If the argument clients is not nil, the server serves only HTTP clients whose certificate this argument accepts.
func (s *Server) Listen(ctx context.Context, address string, rotator *Rotator, clients *Clients) (port int, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return 0, fmt.Errorf("listen for the API server: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: rotator.Certificate}
	if clients != nil {
		clients.require(config)
	}
	server := &http.Server{
		Handler: s, TLSConfig: config, ErrorLog: s.options.Log,
		// The timeouts are long, because a hook may run for 30 s, and the API server may send long
		// lists in one ConversionReview.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 90 * time.Second, IdleTimeout: 5 * time.Minute,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return 0, errors.Join(http.ErrServerClosed, listener.Close())
	}
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("%s is not a TCP address", listener.Addr()), listener.Close())
	}
	s.servers = append(s.servers, server)
	go func() { _ = server.ServeTLS(listener, "", "") }() // ServeTLS returns an error when the server is stopped
	return tcp.Port, nil
}

// Stop accepts no new connections and waits until all running reviews have a response. When ctx
// ends, Stop closes the remaining connections, which cancels the contexts of the hooks that still
// run.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopped = true
	servers := s.servers
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, server := range servers {
		all.Go(func() {
			if server.Shutdown(ctx) != nil {
				_ = server.Close() // closes the connections of the remaining clients
			}
		})
	}
	all.Wait()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		_, _ = io.WriteString(w, "ok\n") // an error means that the client has closed the connection
		return
	}
	now := s.routes.Load()
	admission, isAdmission := now.admissions[r.URL.Path]
	crd := strings.TrimPrefix(r.URL.Path, "/")
	_, isConversion := now.conversions[crd]
	removed, withdrawn := now.withdrawn[r.URL.Path]
	switch {
	case !isAdmission && !isConversion && !withdrawn:
		http.Error(w, "no binding of a hook is served at this path", http.StatusNotFound)
	case r.Method != http.MethodPost:
		http.Error(w, "the method must be POST", http.StatusMethodNotAllowed)
	case isAdmission:
		s.admit(w, r, admission.hookType(), &admission)
	case isConversion:
		s.convert(w, r, crd, now)
	case removed != hook.TypeConversion:
		s.admit(w, r, removed, nil)
	default:
		s.convert(w, r, crd, now)
	}
}

// body reads the body of a request. The argument most is the maximum size in bytes. If the body is
// larger, the function returns an error.
func body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, &httpError{http.StatusRequestEntityTooLarge, fmt.Errorf("the review has more than %d MiB", most>>20)}
	}
	if err != nil {
		return nil, &httpError{http.StatusBadRequest, err}
	}
	return text, nil
}

// httpError is an error with its own HTTP status. For other errors, the status is 500. The API
// server shows the text of the error to the client whose request is reviewed.
type httpError struct {
	code int
	err  error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

// send writes a review or, if err is not nil, an error response.
func send(w http.ResponseWriter, review reply, err error) {
	if err == nil {
		var text []byte
		if text, err = json.Marshal(review); err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text) // an error means that the client has closed the connection
			return
		}
	}
	code := http.StatusInternalServerError
	if known, ok := errors.AsType[*httpError](err); ok {
		code = known.code
	}
	http.Error(w, err.Error(), code)
}
