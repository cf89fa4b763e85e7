package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"addon-operator/internal/api"
)

// newFetcher returns a Fetcher that trusts the certificates of servers.
func newFetcher(t testing.TB, o Options, servers ...*httptest.Server) *Fetcher {
	t.Helper()
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
	}
	if o.RootCAs == nil {
		o.RootCAs = x509.NewCertPool()
	}
	for _, server := range servers {
		if c := server.Certificate(); c != nil {
			o.RootCAs.AddCert(c)
		}
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if used := f.limits.Disk - f.disk.left.Load(); used != 0 {
			t.Errorf("%d bytes of temporary space were not given back", used)
		}
		left, err := os.ReadDir(f.disk.dir)
		if err != nil || len(left) != 0 {
			t.Errorf("temporary files remain: %v %v", left, err)
		}
	})
	return f
}

func open(t testing.TB, f *Fetcher, rawURL string, secret map[string][]byte) *Repository {
	t.Helper()
	address, err := Render(rawURL, secret)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func archiveOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// random returns n bytes that cannot be compressed. They are the same in each call.
func random(n int) string {
	out := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return string(out)
}

// A files is an HTTP handler that serves content by path, and records the requests. Its responses have an ETag, unless
// plain is set.
type files struct {
	mu      sync.Mutex
	content map[string][]byte
	plain   bool // responses have no ETag
	sent    atomic.Int64
	seen    []*http.Request
}

func (s *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r)
	content, ok := s.content[r.URL.EscapedPath()]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if !s.plain {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, len(content)))
		if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	n, _ := w.Write(content)
	s.sent.Add(int64(n))
}

func readAddon(t testing.TB, r *Repository, name, version, file string) string {
	t.Helper()
	content, err := r.Addon(t.Context(), name, version, Validators{})
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	fsys, err := content.FS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestIndexAndArchivesAreFetchedOverHTTPSWithUserAndQuery(t *testing.T) {
	t.Parallel()
	served := &files{content: map[string][]byte{
		"/a/index.yaml":               []byte("entries: {}"),
		"/a/redis-0.0.1+build.tgz":    archiveOf(t, map[string]string{"./meta.yaml": "name: redis"}),
		"/a/odd%3Fname%23-v1.tgz":     archiveOf(t, map[string]string{"meta.yaml": "name: odd"}),
		"/a/big-1.0.0.tgz":            archiveOf(t, map[string]string{"big": random(3 << 20)}),
		"/a/%2F..%2Fsecret-1.0.0.tgz": archiveOf(t, map[string]string{"meta.yaml": "no"}),
	}}
	server := httptest.NewTLSServer(served)
	defer server.Close()
	f := newFetcher(t, Options{}, server)
	host := strings.TrimPrefix(server.URL, "https://")
	r := open(t, f, "https://{user}:{pass}@"+host+"/a/index.yaml?u=x/y&token={token}", secretOf("user", "me", "pass", "p/w{", "token", "a b/c"))

	document, err := r.Index(t.Context(), Validators{})
	if err != nil || string(document.Data) != "entries: {}" || document.NotModified {
		t.Fatalf("got %q, %v", document.Data, err)
	}
	if got := readAddon(t, r, "redis", "0.0.1+build", "meta.yaml"); got != "name: redis" {
		t.Errorf("redis has %q", got)
	}
	if got := readAddon(t, r, "odd?name#", "v1", "meta.yaml"); got != "name: odd" {
		t.Errorf("the addon with an odd name has %q", got)
	}
	if got := readAddon(t, r, "big", "1.0.0", "big"); len(got) != 3<<20 {
		t.Errorf("the big addon has %d bytes", len(got))
	}
	for _, request := range served.seen {
		user, password, _ := request.BasicAuth()
		if q := request.URL.Query(); user != "me" || password != "p/w{" || q.Get("token") != "a b/c" || q.Get("u") != "x/y" {
			t.Errorf("%s came from %s:%s with the query %s", request.URL.Path, user, password, request.URL.RawQuery)
		}
	}
	if len(served.seen) != 4 {
		t.Errorf("%d requests were made", len(served.seen))
	}
	if _, err := r.Addon(t.Context(), "/../secret", "1.0.0", Validators{}); reasonOf(err) != api.LoadingError {
		t.Errorf("an addon outside of the directory: %v", err)
	}
}

func TestUnchangedContentIsNotDownloadedAgain(t *testing.T) {
	for name, plain := range map[string]bool{"server with validators": false, "server without validators": true} {
		t.Run(name, func(t *testing.T) {
			served := &files{plain: plain, content: map[string][]byte{
				"/index.yaml": []byte("entries: {}"), "/a-1.tgz": archiveOf(t, map[string]string{"meta.yaml": "x"}),
			}}
			server := httptest.NewTLSServer(served)
			defer server.Close()
			f := newFetcher(t, Options{}, server)
			fetch := func(knownIndex, knownAddon Validators) (Document, *Content) {
				r := open(t, f, server.URL+"/index.yaml", nil)
				document, err := r.Index(t.Context(), knownIndex)
				if err != nil {
					t.Fatal(err)
				}
				content, err := r.Addon(t.Context(), "a", "1", knownAddon)
				if err != nil {
					t.Fatal(err)
				}
				content.Close()
				return document, content
			}
			document, content := fetch(Validators{}, Validators{})
			first := served.sent.Load()
			again, contentAgain := fetch(document.Validators, content.Validators)
			if !again.NotModified || !contentAgain.NotModified || again.Data != nil {
				t.Errorf("unchanged content is modified: %v %v", again, contentAgain)
			}
			if again.Validators != document.Validators || contentAgain.Validators != content.Validators {
				t.Errorf("validators of unchanged content changed to %v %v", again.Validators, contentAgain.Validators)
			}
			if sent := served.sent.Load() - first; (sent > 0) != plain {
				t.Errorf("%d bytes were sent for unchanged content", sent)
			}

			served.mu.Lock()
			served.content["/index.yaml"] = []byte("entries: {a: []}")
			served.mu.Unlock()
			changed, _ := fetch(document.Validators, content.Validators)
			if changed.NotModified || string(changed.Data) != "entries: {a: []}" {
				t.Errorf("changed content is %q", changed.Data)
			}

			other := document.Validators
			other.Source = "another address"
			if fresh, _ := fetch(other, Validators{}); fresh.NotModified {
				t.Error("validators of another address were used")
			}
		})
	}
}

func TestAFileThatChangesInTheSecondOfItsFetchIsFetchedAgain(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, age := range map[string]time.Duration{"of this second": 0, "old": time.Hour} {
		t.Run(name, func(t *testing.T) {
			text := "entries: {}"
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
				http.ServeContent(w, r, "index.yaml", now.Add(-age), strings.NewReader(text))
			}))
			defer server.Close()
			r := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil)
			first, err := r.Index(t.Context(), Validators{})
			if err != nil {
				t.Fatal(err)
			}
			text = "entries: {a: []}" // Last-Modified stays the same
			second, err := r.Index(t.Context(), first.Validators)
			if err != nil || second.NotModified != (age > 0) {
				t.Errorf("not modified: %v, %v", second.NotModified, err)
			}
		})
	}
}

func reasonOf(err error) api.Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// hang starts a server that does not respond to requests until the test ends.
func hang(t testing.TB) *httptest.Server {
	t.Helper()
	end := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	return server
}

func TestFailuresOfHTTPHaveTheirReasonAndNoSecret(t *testing.T) {
	const user, password, token = "user-S3cr3t", "pass/S3cr3t {%", "token S3cr3t+&"
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The responses repeat the credentials of the request in their headers and bodies.
		echo := r.Header.Get("Authorization") + r.URL.String()
		w.Header().Set("X-Echo", url.QueryEscape(echo))
		switch {
		case strings.HasPrefix(r.URL.Path, "/500"):
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, echo)
		case strings.HasPrefix(r.URL.Path, "/large"):
			w.Header().Set("Content-Length", "10737418240")
			fmt.Fprint(w, echo)
		case strings.HasPrefix(r.URL.Path, "/endless"):
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case strings.HasPrefix(r.URL.Path, "/slow"):
			for r.Context().Err() == nil {
				fmt.Fprint(w, "x")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		case strings.HasPrefix(r.URL.Path, "/ftp"):
			w.Header().Set("Location", "ftp://me:"+url.PathEscape(password)+"@host/"+url.QueryEscape(echo))
			w.WriteHeader(http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/http"):
			w.Header().Set("Location", "http://"+r.Host+"/?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/loop"):
			w.Header().Set("Location", r.URL.String())
			w.WriteHeader(http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, "/nowhere"):
			w.Header().Set("Location", "https://%zz"+password)
			w.WriteHeader(http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, "/close"):
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(r.URL.Path, "/junk"):
			connection, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(connection, "HTTP/1.1 %s\r\n%s\r\n", echo, echo)
			connection.Close()
		default:
			http.NotFound(w, r)
		}
	})
	server.StartTLS()
	defer server.Close()
	server.Config.ErrorLog = nil
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	// No server listens on port 1. The port of a closed test server could belong to another process.
	const refused = "127.0.0.1:1"

	limits := Limits{Index: 1 << 20, Archive: 2 << 20}
	f := newFetcher(t, Options{Limits: limits}, server)
	impatient := newFetcher(t, Options{Limits: Limits{Request: 400 * time.Millisecond}}, server)
	// All servers of net/http/httptest have the same certificate, so a fetcher that does not trust a server must trust
	// no certificate at all.
	untrusting := newFetcher(t, Options{Limits: limits, RootCAs: x509.NewCertPool()})
	at := func(server *httptest.Server) string { return server.Listener.Addr().String() }

	for _, test := range []struct {
		name, host, want string
		fetcher          *Fetcher
		loading          bool // whether the reason is LoadingError, because the content is invalid
	}{
		{name: "500", host: at(server), want: "bad response code: 500"},
		{name: "missing", host: at(server), want: "bad response code: 404"},
		{name: "large", host: at(server), want: "larger than the limit", loading: true},
		{name: "endless", host: at(server), want: "larger than the limit", loading: true},
		{name: "slow", host: at(server), want: "did not respond in time", fetcher: impatient},
		{name: "ftp", host: at(server), want: "redirect to the scheme 'ftp' is refused"},
		{name: "http", host: at(server), want: "redirect to the scheme 'http' is refused"},
		{name: "loop", host: at(server), want: "more than 5 redirects"},
		{name: "nowhere", host: at(server), want: "without a valid location"},
		{name: "close", host: at(server), want: "closed the connection too early"},
		{name: "junk", host: at(server), want: "malformed HTTP"},
		{name: "hang", host: at(hang(t)), want: "did not respond in time", fetcher: impatient},
		{name: "refused", host: refused, want: "connection refused (" + refused + ")"},
		{name: "untrusted", host: at(stranger), want: "certificate of the server is not valid", fetcher: untrusting},
		{name: "no host", host: "does-not-exist.invalid", want: "host does-not-exist.invalid"},
		{name: "host in secret", host: "{host}", want: "host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fetcher := f
			if test.fetcher != nil {
				fetcher = test.fetcher
			}
			secret := secretOf("u", user, "p", password, "t", token, "host", "s3cr3t-host.invalid")
			r := open(t, fetcher, "https://{u}:{p}@"+test.host+"/"+test.name+"/index.yaml?t={t}&inline=inline-S3cr3t", secret)
			_, err := r.Index(t.Context(), Validators{})
			checkFailure(t, err, api.FetchingIndexError, test.want)
			_, err = r.Addon(t.Context(), "redis", "0.0.1", Validators{})
			reason := api.FetchingError
			if test.loading {
				reason = api.LoadingError
			}
			checkFailure(t, err, reason, test.want)
		})
	}
}

// checkFailure checks that err has this reason and that its text contains the text want. It also checks that no text of
// err contains a secret: all secrets in these tests contain "s3cr3t".
func checkFailure(t *testing.T, err error, reason api.Reason, want string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Errorf("got %v (%T), which has no reason", err, err)
		return
	}
	if e.Reason != reason || !strings.Contains(e.Error(), want) {
		t.Errorf("got %s: %s\nwant %s: … %s", e.Reason, e, reason, want)
	}
	checkNoSecret(t, err)
}

func checkNoSecret(t *testing.T, err error) {
	t.Helper()
	texts := []string{fmt.Sprintf("%v %+v %#v", err, err, err)}
	if e, ok := errors.AsType[*Error](err); ok {
		texts = append(texts, e.Reason.Message(e))
	}
	for at := err; at != nil; at = errors.Unwrap(at) {
		texts = append(texts, at.Error())
	}
	for _, text := range texts {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" '\"/:?&=()[]{},;", r) }) {
			decoded, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "="))
			unescaped, _ := url.QueryUnescape(word)
			for _, form := range []string{word, string(decoded), unescaped} {
				if strings.Contains(strings.ToLower(form), "s3cr3t") {
					t.Errorf("a secret is in the error: %s", text)
				}
			}
		}
	}
}

func TestRedirectsCarryCredentialsToTheSameHostOnly(t *testing.T) {
	t.Parallel()
	type visit struct{ path, authorization, referer string }
	var mu sync.Mutex
	var visits []visit
	record := func(next string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			visits = append(visits, visit{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Referer")})
			mu.Unlock()
			switch r.URL.Path {
			case "/index.yaml":
				http.Redirect(w, r, "/moved", http.StatusFound)
			case "/moved":
				http.Redirect(w, r, next, http.StatusPermanentRedirect)
			default:
				fmt.Fprint(w, "entries: {}")
			}
		})
	}
	other := httptest.NewTLSServer(record(""))
	defer other.Close()
	server := httptest.NewTLSServer(record(other.URL + "/end"))
	defer server.Close()
	f := newFetcher(t, Options{}, server, other)
	r := open(t, f, "https://u:p@"+server.Listener.Addr().String()+"/index.yaml?t=1", nil)
	if document, err := r.Index(t.Context(), Validators{}); err != nil || string(document.Data) != "entries: {}" {
		t.Fatalf("got %q, %v", document.Data, err)
	}
	const basic = "Basic dTpw"
	want := []visit{{"/index.yaml", basic, ""}, {"/moved", basic, ""}, {"/end", "", ""}}
	if fmt.Sprint(visits) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", visits, want)
	}
}

func TestAddressesOfTheMachineAndItsCloudAreRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+strings.TrimPrefix(r.URL.Path, "/to/")+"/latest/meta-data", http.StatusFound)
	}))
	defer server.Close()
	f := newFetcher(t, Options{Develop: true}, server)
	const refused = " are refused, because it is an address of the machine or of its cloud provider"
	for rawURL, want := range map[string]string{
		"https://169.254.169.254/index.yaml":                     "connections to 169.254.169.254" + refused,
		"http://[::ffff:169.254.169.254]/index.yaml":             "connections to 169.254.169.254" + refused,
		"http://[fd00:ec2::254]/index.yaml":                      "connections to fd00:ec2::254" + refused,
		"git::https://100.100.100.200/r.git//index.yaml":         "connections to 100.100.100.200" + refused,
		"git::ssh://git:pass@169.254.169.254/r//index.yaml":      "connections to 169.254.169.254" + refused,
		"s3::https://169.254.169.254/bucket//index.yaml":         "connections to 169.254.169.254" + refused,
		server.URL + "/to/169.254.169.254":                       "connections to 169.254.169.254" + refused,
		"git::" + server.URL + "/to/169.254.169.254//index.yaml": "connections to 169.254.169.254" + refused,
	} {
		_, err := open(t, f, rawURL, nil).Index(t.Context(), Validators{})
		checkFailure(t, err, api.FetchingIndexError, want)
	}
	if err := checkAddress(context.WithValue(t.Context(), trustKey{}, proxied), "tcp4", "169.254.1.1:80", nil); err != nil {
		t.Errorf("the proxy of the environment is refused: %v", err)
	}
}

func TestARedirectLeadsToThisMachineOnlyFromThisMachine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		develop              bool
		first, next          string
		address              string
		isRefused, isProxied bool
	}{
		{first: "https://h/", next: "https://x/", address: "127.0.0.1:443", isRefused: true},
		{first: "https://h/", next: "https://x/", address: "[::1]:443", isRefused: true},
		{first: "https://h/", next: "https://x/", address: "0.0.0.0:443", isRefused: true},
		{first: "https://h/", next: "https://x/", address: "10.0.0.1:443"},
		{first: "https://h/", next: "https://h/", address: "127.0.0.1:443"},
		{first: "https://127.0.0.1:1/", next: "https://127.0.0.1:2/", address: "127.0.0.1:2"},
		{first: "https://localhost/", next: "https://x/", address: "127.0.0.1:443"},
		{first: "https://h/", next: "https://x/", address: "127.0.0.1:443", isProxied: true},
		{first: "https://h/", next: "https://x/", address: "127.0.0.1:443", develop: true},
	} {
		f := newFetcher(t, Options{Develop: test.develop})
		f.client.transport.Proxy = func(*http.Request) (*url.URL, error) {
			if test.isProxied {
				return &url.URL{Scheme: "http", Host: "127.0.0.1:3128"}, nil
			}
			return nil, nil //nolint:nilnil // there is none
		}
		first, err1 := url.Parse(test.first)
		next, err2 := url.Parse(test.next)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		err := checkAddress(f.client.trusting(t.Context(), &http.Request{URL: next}, first, next), "tcp", test.address, nil)
		if (err != nil) != test.isRefused {
			t.Errorf("%+v: got %v", test, err)
		}
	}
}

func TestHTTPIsAllowedInDevelopModeOnly(t *testing.T) {
	t.Parallel()
	served := &files{content: map[string][]byte{"/index.yaml": []byte("entries: {}")}}
	server := httptest.NewServer(served)
	defer server.Close()
	address, err := Render(server.URL+"/index.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newFetcher(t, Options{}).Open(address)
	checkFailure(t, err, api.FetchingIndexError, "not supported scheme 'http' for addons repository")
	if e, _ := errors.AsType[*Error](err); e == nil || !e.Permanent {
		t.Errorf("%v is not permanent", err)
	}
	if len(served.seen) != 0 {
		t.Error("a request was made")
	}
	if _, err := open(t, newFetcher(t, Options{Develop: true}), server.URL+"/index.yaml", nil).Index(t.Context(), Validators{}); err != nil {
		t.Error(err)
	}
}

func TestAHangingServerDelaysNoOther(t *testing.T) {
	t.Parallel()
	hanging := hang(t)
	served := &files{content: map[string][]byte{"/index.yaml": []byte("entries: {}")}}
	server := httptest.NewTLSServer(served)
	defer server.Close()
	f := newFetcher(t, Options{Limits: Limits{Requests: 8, RequestsPerHost: 4, Request: time.Hour}}, server)
	ctx, cancel := context.WithCancelCause(t.Context())
	var waiting sync.WaitGroup
	stopped := errors.New("the operator stops")
	for range 100 {
		r := open(t, f, hanging.URL+"/index.yaml", nil)
		waiting.Go(func() {
			if _, err := r.Index(ctx, Validators{}); !errors.Is(err, stopped) {
				t.Errorf("got %v for a stopped request", err)
			}
		})
	}
	for range 50 {
		r := open(t, f, server.URL+"/index.yaml", nil)
		if _, err := r.Index(t.Context(), Validators{}); err != nil {
			t.Fatal(err)
		}
	}
	cancel(stopped)
	waiting.Wait()
	if len(f.slots.hosts) != 0 || len(f.slots.all) != 0 {
		t.Errorf("slots remain taken: %v", f.slots.hosts)
	}
}

func TestOneServerGetsABoundedNumberOfRequestsAtOnce(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			seen := most.Load()
			if n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		time.Sleep(time.Millisecond)
		fmt.Fprint(w, "entries: {}")
	}))
	defer server.Close()
	f := newFetcher(t, Options{Limits: Limits{RequestsPerHost: 3}}, server)
	var all sync.WaitGroup
	for range 60 {
		r := open(t, f, server.URL+"/index.yaml", nil)
		all.Go(func() {
			if _, err := r.Index(t.Context(), Validators{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests ran at once", most.Load())
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	served := &files{content: map[string][]byte{"/index.yaml": []byte("entries: {}")}}
	server := httptest.NewUnstartedServer(served)
	var connections atomic.Int64
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	f := newFetcher(t, Options{}, server)
	for i := range 50 {
		r := open(t, f, server.URL+"/index.yaml", nil)
		if _, err := r.Index(t.Context(), Validators{}); err != nil {
			t.Fatal(err)
		}
		_, err := r.Addon(t.Context(), "missing", fmt.Sprint(i), Validators{})
		checkFailure(t, err, api.FetchingError, "404")
	}
	// More than one connection is allowed: on a busy machine, the HTTP client closes a connection if it does not learn
	// within 50 ms that it has written the request.
	if n := connections.Load(); n > 50 {
		t.Errorf("100 requests made %d connections", n)
	}
}

func TestTemporaryFilesOfAKilledProcessAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, "addons-fetch", "clone", "file")
	kept := filepath.Join(dir, "other")
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, nil, 0o600), os.WriteFile(kept, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	newFetcher(t, Options{TempDir: dir})
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file remains: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestTemporarySpaceIsBounded(t *testing.T) {
	t.Parallel()
	served := &files{content: map[string][]byte{"/a-1.tgz": []byte(random(3 << 20))}}
	server := httptest.NewTLSServer(served)
	defer server.Close()
	f := newFetcher(t, Options{Limits: Limits{Disk: 4 << 20}}, server)
	r := open(t, f, server.URL+"/index.yaml", nil)
	first, err := r.Addon(t.Context(), "a", "1", Validators{})
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(f.disk.dir); err != nil || len(names) != 0 {
		t.Errorf("a file in use has a name: %v %v", names, err)
	}
	_, err = r.Addon(t.Context(), "a", "1", Validators{})
	checkFailure(t, err, api.FetchingError, "temporary space")
	first.Close()
	second, err := r.Addon(t.Context(), "a", "1", Validators{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_, err = second.FS(t.Context())
	checkFailure(t, err, api.LoadingError, "while loading addon and charts for addon [a] and version [1]: archive is not in gzip format")
}

// BenchmarkManyRepositories measures concurrent fetches of a repository with an index and 10 addons. In the benchmark
// "unchanged", the server answers each request with "not modified".
func BenchmarkManyRepositories(b *testing.B) {
	for name, known := range map[string]bool{"new": false, "unchanged": true} {
		b.Run(name, func(b *testing.B) {
			served := &files{content: map[string][]byte{"/index.yaml": []byte(strings.Repeat("x", 1000))}}
			for i := range 10 {
				served.content[fmt.Sprintf("/a-%d.tgz", i)] = archiveOf(b, map[string]string{"meta.yaml": random(5000)})
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				content := served.content[r.URL.Path]
				w.Header().Set("ETag", `"1"`)
				if r.Header.Get("If-None-Match") == `"1"` {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				_, _ = w.Write(content)
			}))
			defer server.Close()
			f := newFetcher(b, Options{Develop: true})
			address, err := Render(server.URL+"/index.yaml", nil)
			if err != nil {
				b.Fatal(err)
			}
			var fetches atomic.Int64
			repository := func(validators []Validators) []Validators {
				r, err := f.Open(address)
				if err != nil {
					b.Error(err)
					return nil
				}
				defer r.Close()
				document, err := r.Index(b.Context(), validators[0])
				if err != nil {
					b.Error(err)
					return nil
				}
				out := []Validators{document.Validators}
				for i := range 10 {
					content, err := r.Addon(b.Context(), "a", fmt.Sprint(i), validators[i+1])
					if err != nil {
						b.Error(err)
						return nil
					}
					content.Close()
					out = append(out, content.Validators)
				}
				fetches.Add(11)
				return out
			}
			validators := make([]Validators, 11)
			if known {
				validators = repository(validators)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					repository(validators)
				}
			})
			b.ReportMetric(float64(fetches.Load())/b.Elapsed().Seconds(), "fetches/s")
		})
	}
}
