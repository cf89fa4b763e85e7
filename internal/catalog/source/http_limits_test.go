package source

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"addon-operator/internal/api"
)

func TestATimeOfModificationIsTrustedFromTwoSecondsOn(t *testing.T) {
	t.Parallel()
	const modified = "Sat, 28 Nov 2026 09:00:00 GMT"
	for name, test := range map[string]struct{ modified, date, want string }{
		"same second":           {modified, "Sat, 28 Nov 2026 09:00:00 GMT", ""},
		"one second later":      {modified, "Sat, 28 Nov 2026 09:00:01 GMT", ""},
		"two seconds later":     {modified, "Sat, 28 Nov 2026 09:00:02 GMT", modified},
		"before":                {modified, "Sat, 28 Nov 2026 08:00:00 GMT", ""},
		"no Date":               {modified, "", ""},
		"no Last-Modified":      {"", "Sat, 28 Nov 2026 09:00:02 GMT", ""},
		"damaged Date":          {modified, "yesterday", ""},
		"damaged Last-Modified": {"yesterday", "Sat, 28 Nov 2026 09:00:02 GMT", ""},
	} {
		header := http.Header{"Last-Modified": {test.modified}, "Date": {test.date}}
		if got := lastModified(header); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// answering starts a server with one handler for all paths.
func answering(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestVeryLongValidatorsAreNotStored(t *testing.T) {
	t.Parallel()
	for length, stored := range map[int]bool{1024: true, 1025: false} {
		server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", strings.Repeat("x", length))
			fmt.Fprint(w, "entries: {}")
		})
		document, err := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil).Index(t.Context(), Validators{})
		if err != nil || (document.Validators.ETag != "") != stored || document.Validators.Digest == "" {
			t.Errorf("an ETag of %d bytes: got %+v, %v", length, document.Validators, err)
		}
	}
}

func TestValidatorsAreSentOnlyWithTheContentTheyBelongTo(t *testing.T) {
	t.Parallel()
	const old = "Sat, 28 Nov 2026 09:00:00 GMT"
	sent := make(chan string, 1)
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("If-None-Match") + " " + r.Header.Get("If-Modified-Since")
		fmt.Fprint(w, "entries: {}")
	})
	r := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil)
	for name, test := range map[string]struct {
		known Validators
		want  string
	}{
		"content":              {Validators{Source: r.source, Digest: "d", ETag: `"1"`, LastModified: old}, `"1" ` + old},
		"only a time":          {Validators{Source: r.source, Digest: "d", LastModified: old}, " " + old},
		"without content":      {Validators{Source: r.source, ETag: `"1"`, LastModified: old}, " "},
		"of another address":   {Validators{Source: "other", Digest: "d", ETag: `"1"`, LastModified: old}, " "},
		"none":                 {Validators{}, " "},
		"content without them": {Validators{Source: r.source, Digest: "d"}, " "},
	} {
		if _, err := r.Index(t.Context(), test.known); err != nil {
			t.Fatal(err)
		}
		if got := <-sent; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestAnUnaskedNotModifiedIsAFailure sends requests without If-None-Match and If-Modified-Since. If the server answers
// "not modified", Index must return an error, because the request names no earlier content.
func TestAnUnaskedNotModifiedIsAFailure(t *testing.T) {
	t.Parallel()
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	f := newFetcher(t, Options{}, server)
	for _, rawURL := range []string{server.URL + "/index.yaml", "s3::" + server.URL + "/bucket//index.yaml"} {
		r := open(t, f, rawURL, nil)
		_, err := r.Index(t.Context(), Validators{Source: r.source, Digest: "d"})
		checkFailure(t, err, api.FetchingIndexError, "bad response code: 304")
	}
}

func TestAnIndexMayBeAsLargeAsTheLimit(t *testing.T) {
	t.Parallel()
	for _, chunked := range []bool{false, true} {
		for length, want := range map[int]string{1000: "", 1001: "the index is larger than the limit of 1000 bytes"} {
			server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				if chunked {
					_ = http.NewResponseController(w).Flush() // so that the response has no Content-Length
				}
				fmt.Fprint(w, strings.Repeat("x", length))
			})
			f := newFetcher(t, Options{Limits: Limits{Index: 1000}}, server)
			document, err := open(t, f, server.URL+"/index.yaml", nil).Index(t.Context(), Validators{})
			switch {
			case want != "":
				checkFailure(t, err, api.FetchingIndexError, want)
			case err != nil || len(document.Data) != length:
				t.Errorf("got %d bytes: %v", len(document.Data), err)
			}
		}
	}
}

func TestAResponseThatIsShorterThanAnnouncedIsRefused(t *testing.T) {
	t.Parallel()
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "entries:")
	})
	_, err := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "the server closed the connection too early")
}

func TestAsManyRedirectsAsTheLimitAreFollowed(t *testing.T) {
	t.Parallel()
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if rest := strings.TrimPrefix(r.URL.Path, "/"); rest != "" {
			http.Redirect(w, r, "/"+rest[1:], http.StatusSeeOther)
			return
		}
		fmt.Fprint(w, "entries: {}")
	})
	f := newFetcher(t, Options{Limits: Limits{Redirects: 3}}, server)
	if document, err := open(t, f, server.URL+"/xxx", nil).Index(t.Context(), Validators{}); err != nil || string(document.Data) != "entries: {}" {
		t.Errorf("got %q, %v", document.Data, err)
	}
	_, err := open(t, f, server.URL+"/xxxx", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "more than 3 redirects")
}

func TestARedirectDropsTheUserAndTheFragmentOfItsTarget(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			w.Header().Set("Location", "https://other:user@"+r.Host+"/end?q=1#fragment")
			w.WriteHeader(http.StatusFound)
			return
		}
		seen <- r.URL.String() + " " + r.Header.Get("Authorization")
	})
	if _, err := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil).Index(t.Context(), Validators{}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-seen, "/end?q=1 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRedirectsOfSignedRequestsAreNotFollowed(t *testing.T) {
	t.Parallel()
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	f := newFetcher(t, Options{}, server)
	_, err := open(t, f, "s3::"+server.URL+"/bucket//index.yaml?aws_access_key_id=AKIA1&aws_access_key_secret=K3y", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "bad response code: 307")
}

func TestNamesThatLeadOutOfTheDirectoryAreRefused(t *testing.T) {
	t.Parallel()
	server := answering(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was requested", r.URL) })
	r := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil)
	for _, test := range [][2]string{{"a/b", "1"}, {"a", "1/2"}, {`a\b`, "1"}, {"a", `1\2`}, {"a\x00", "1"}, {"..", "1"}, {".hidden", "1"}} {
		_, err := r.Addon(t.Context(), test[0], test[1], Validators{})
		checkFailure(t, err, api.LoadingError, "the name and the version must not contain slashes")
	}
}

func TestUnmodifiedContentHasNoFiles(t *testing.T) {
	t.Parallel()
	served := &files{content: map[string][]byte{"/a-1.tgz": archiveOf(t, map[string]string{"meta.yaml": "x"})}}
	server := answering(t, served.ServeHTTP)
	r := open(t, newFetcher(t, Options{}, server), server.URL+"/index.yaml", nil)
	content, err := r.Addon(t.Context(), "a", "1", Validators{})
	if err != nil {
		t.Fatal(err)
	}
	content.Close()
	again, err := r.Addon(t.Context(), "a", "1", content.Validators)
	if err != nil || !again.NotModified {
		t.Fatalf("got %+v, %v", again, err)
	}
	const want = "while loading addon a: while loading addon and charts for addon [a] and version [1]: there is no content, as it is not modified"
	if _, err := again.FS(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
