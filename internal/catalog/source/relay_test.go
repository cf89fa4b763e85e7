package source

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// relayTo returns a relay to a server, and starts it.
func relayTo(t *testing.T, limits Limits, server *httptest.Server, user string) *relay {
	t.Helper()
	target, err := url.Parse(strings.Replace(server.URL, "https://", "https://"+user+"@", 1) + "/r?t=token")
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, Options{Limits: limits}, server)
	r, err := f.startRelay(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func send(t *testing.T, method, address string, header http.Header) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return got.StatusCode, string(text), err
}

func TestTheRelayAddsCredentialsAndForwardsOnlyHeadersOfHg(t *testing.T) {
	t.Parallel()
	var requests recorded
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		requests.add("%s %s %s:%s accept=%q args=%q other=%q", r.Method, r.URL, user, password, r.Header.Get("Accept"), r.Header.Get("X-HgArg-1"), r.Header.Get("Cookie"))
		w.Header().Set("Content-Type", "application/mercurial-0.1")
		w.Header().Set("X-Secret", "S3cr3t")
		_, _ = io.WriteString(w, "heads")
	})
	r := relayTo(t, Limits{}, server, "me:pass")
	header := http.Header{"Accept": {"application/mercurial-0.1"}, "X-Hgarg-1": {"cmds=heads"}, "Cookie": {"a=b"}}
	status, body, err := send(t, http.MethodGet, r.address+"/?cmd=batch", header)
	if err != nil || status != http.StatusOK || body != "heads" {
		t.Errorf("got %d %q, %v", status, body, err)
	}
	want := `GET /r?cmd=batch&t=token me:pass accept="application/mercurial-0.1" args="cmds=heads" other=""`
	if len(requests.lines) != 1 || requests.lines[0] != want {
		t.Errorf("got  %q\nwant %q", requests.lines, want)
	}
	if err := r.failed(); err != nil {
		t.Error(err)
	}
}

func TestTheRelayRejectsRequestsThatAreNotOfHg(t *testing.T) {
	t.Parallel()
	server := answering(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was requested", r.URL) })
	r := relayTo(t, Limits{}, server, "me:pass")
	host := strings.TrimSuffix(r.address, r.prefix)
	for name, test := range map[string][2]string{
		"root":           {http.MethodGet, host + "/"},
		"guessed prefix": {http.MethodGet, host + "/AAAAAAAAAAAAAAAAAAAAAAAAAA/?cmd=heads"},
		"push":           {http.MethodPost, r.address + "/?cmd=unbundle"},
	} {
		if status, _, err := send(t, test[0], test[1], nil); err != nil || status != http.StatusNotFound {
			t.Errorf("%s: got %d, %v", name, status, err)
		}
	}
	if err := r.failed(); err != nil {
		t.Errorf("a refused request is the failure of the repository: %v", err)
	}
}

func TestTheRelayReportsItsFirstFailure(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	r := relayTo(t, Limits{}, server, "me")
	for _, code := range []int64{401, 500} {
		status.Store(code)
		if got, _, err := send(t, http.MethodGet, r.address+"/", nil); err != nil || got != http.StatusBadGateway {
			t.Errorf("got %d, %v", got, err)
		}
	}
	if err := r.failed(); err == nil || err.Error() != "bad response code: 401" {
		t.Errorf("got %v", err)
	}
}

// hg must not accept the beginning of an answer as the whole answer.
func TestTheRelayBreaksAnAnswerBeyondTheLimitOfTheRepository(t *testing.T) {
	t.Parallel()
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 600)) })
	r := relayTo(t, Limits{Repository: 1000}, server, "me")
	if _, body, err := send(t, http.MethodGet, r.address+"/", nil); err != nil || len(body) != 600 {
		t.Fatalf("got %d bytes, %v", len(body), err)
	}
	if status, body, err := send(t, http.MethodGet, r.address+"/", nil); err == nil {
		t.Errorf("got the answer %d with %d bytes, which is complete for hg", status, len(body))
	}
	if err := r.failed(); err == nil || err.Error() != "the repository is larger than its limit" {
		t.Errorf("got %v", err)
	}
}

func TestABudgetCountsTheBytesOfAllItsReaders(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	left.Store(10)
	for _, text := range []string{"0123", "456789"} {
		if got, err := io.ReadAll(&budget{reader: strings.NewReader(text), left: &left}); err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	got, err := io.ReadAll(&budget{reader: strings.NewReader("x"), left: &left})
	if plain, ok := errors.AsType[*plainError](err); !ok || !plain.loading || len(got) != 0 {
		t.Errorf("got %q, %v", got, err)
	}
}
