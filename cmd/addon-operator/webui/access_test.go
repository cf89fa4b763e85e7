package webui_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"addon-operator/cmd/addon-operator/webui"
)

// roles is the access control of the tests: it has the rights of persons by their tokens. A right
// is "verb resource/subresource name".
type roles map[string][]string

type person string

func (p person) Name() string { return "name of " + string(p) }

var errAPIServer = errors.New("the API server does not respond")

func (all roles) Person(r *http.Request) (webui.Person, error) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c, err := r.Cookie(webui.TokenCookie); err == nil && token == "" {
		token = c.Value
	}
	if token == "unanswered" {
		return nil, errAPIServer
	}
	if _, known := all[token]; !known {
		return nil, webui.ErrUnknown
	}
	return person(token), nil
}

func (all roles) Allows(_ context.Context, p webui.Person, right webui.Right) (bool, error) {
	token := strings.TrimPrefix(p.Name(), "name of ")
	if token == "undecided" {
		return false, errAPIServer
	}
	text := right.Verb + " " + right.Resource
	if right.Subresource != "" {
		text += "/" + right.Subresource
	}
	return slices.Contains(all[token], strings.TrimSpace(text+" "+right.Name)), nil
}

// protected serves the page of w with access control. The returned function sends a request to this page, with the
// token of a person.
func protected(w *fixture) func(method, path, token string, form url.Values) *httptest.ResponseRecorder {
	o := w.options
	o.Access = roles{"viewer": {"get status"}, "operator": {"get status", "get output", "get values", "create modules/run good"}, "nobody": nil, "undecided": nil}
	h := webui.Handler(o)
	return func(method, path, token string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		if path == "/events" {
			ctx, cancel := context.WithCancel(r.Context())
			cancel() // the stream of events ends only when the context ends
			r = r.WithContext(ctx)
		}
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		if token != "" {
			r.AddCookie(&http.Cookie{Name: webui.TokenCookie, Value: token, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, r)
		return out
	}
}

// The page must not read a large request of a person who is not known.
func TestALargeRequestOfAStrangerIsNotRead(t *testing.T) {
	o := newFixture(t, false).options
	o.Access = roles{}
	body := &counted{Reader: io.MultiReader(strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"), zeros{})}
	r := httptest.NewRequest(http.MethodPost, "/x", io.LimitReader(body, 64<<20))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	out := httptest.NewRecorder()
	webui.Handler(o).ServeHTTP(out, r)
	if out.Code != http.StatusUnauthorized || body.n > 1<<20 {
		t.Errorf("status %d, after %d bytes were read", out.Code, body.n)
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// counted counts the bytes that are read.
type counted struct {
	io.Reader

	n int
}

func (c *counted) Read(b []byte) (n int, err error) {
	n, err = c.Reader.Read(b)
	c.n += n
	return n, err
}

// cookies returns the cookies that a response sets.
func cookies(r *httptest.ResponseRecorder) []*http.Cookie {
	return (&http.Response{Header: r.Header()}).Cookies()
}

func TestEachViewNeedsARight(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	ask := protected(w)
	for _, c := range []struct {
		path, token string
		status      int
		want        string
	}{
		{"/", "", 401, "Sign in"},
		{"/values/good", "stolen", 401, "Sign in"},
		{"/events", "", 401, "Sign in"},
		{"/assets/page.css", "", 200, ""},
		{"/", "viewer", 200, "needs attention"},
		{"/", "nobody", 403, "name of nobody may not get status in the API group addon-operator; a Role can allow it"},
		{"/events", "nobody", 403, "may not get status"},
		{"/values/good", "viewer", 403, "name of viewer may not get values in the API group addon-operator"},
		{"/values/good", "operator", 200, "good"},
		{"/release/good", "operator", 403, "may not get releases"},
		{"/logs", "viewer", 403, "may not get output"},
		{"/logs", "operator", 200, "connecting with"},
		{"/", "unanswered", 500, "the API server does not respond"},
		{"/", "undecided", 500, "the API server does not respond"},
	} {
		response := ask(http.MethodGet, c.path, c.token, nil)
		if body := response.Body.String(); response.Code != c.status || !strings.Contains(body, c.want) || strings.Contains(body, "hunter2") {
			t.Errorf("%s of %q: status %d, want %d %q:\n%s", c.path, c.token, response.Code, c.status, c.want, body)
		}
	}
}

// TestEachActionNeedsARightAndIsThatOfTheSignedInPerson sends actions whose forms have the name of another person. A
// stored action must have the name of the person who has signed in.
func TestEachActionNeedsARightAndIsThatOfTheSignedInPerson(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	ask := protected(w)
	form := url.Values{"by": {"mallory"}, "reason": {"because"}, "name": {"good"}}
	for _, c := range []struct {
		path, token string
		status      int
		by          string // the name that is stored with the action; empty if no action is stored
	}{
		{"pause/module", "", 401, ""},
		{"pause/module", "viewer", 403, ""},
		{"pause/module", "undecided", 500, ""},
		{"module/bad/run", "operator", 403, ""},
		{"reload", "operator", 403, ""},
		{"module/good/run", "operator", 200, "name of operator"},
	} {
		response := ask(http.MethodPost, "/do/"+c.path, c.token, form)
		by := ""
		for _, a := range w.actions() {
			by = a.By
		}
		if body := response.Body.String(); response.Code != c.status || by != c.by {
			t.Errorf("%s of %q: status %d, want %d, done by %q, want %q:\n%s", c.path, c.token, response.Code, c.status, by, c.by, body)
		}
	}
	see, act := webui.Rights()
	for _, right := range append(see, act...) {
		if right.Verb == "" || right.Resource == "" || right.Name != "" || !strings.HasSuffix(right.String(), " in the API group addon-operator") {
			t.Errorf("the page needs the right %+v", right)
		}
	}
}

func TestATokenIsKeptInACookieThatScriptsCannotReadOnlyIfItIsValid(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	ask := protected(w)
	for name, c := range map[string]struct {
		form     url.Values
		status   int
		want     string // text in the body of the answer
		location string
	}{
		"a token":                 {url.Values{"token": {" viewer\n"}, "back": {"/module/good?a=b"}}, 303, "", "/module/good?a=b"},
		"without a view":          {url.Values{"token": {"viewer"}}, 303, "", "/"},
		"with another site":       {url.Values{"token": {"viewer"}, "back": {"https://example.com"}}, 303, "", "/"},
		"with a tab in the path":  {url.Values{"token": {"viewer"}, "back": {"/\t/example.com"}}, 303, "", "/"},
		"with a line in the path": {url.Values{"token": {"viewer"}, "back": {"/\n/example.com"}}, 303, "", "/"},
		"no token":                {url.Values{"token": {" "}}, 401, "The token is empty, or a browser cannot store it.", ""},
		"a cookie of its own":     {url.Values{"token": {"viewer;Domain=example.com"}}, 401, "The token is empty, or a browser cannot store it.", ""},
		"a long token":            {url.Values{"token": {strings.Repeat("x", 4001)}}, 401, "The token is empty, or a browser cannot store it.", ""},
		"a wrong token":           {url.Values{"token": {"stolen"}}, 401, "The API server does not accept this token.", ""},
		"no answer":               {url.Values{"token": {"unanswered"}}, 500, "the API server does not respond", ""},
	} {
		response := ask(http.MethodPost, "/sign-in", "", c.form)
		body := response.Body.String()
		if response.Code != c.status || !strings.Contains(body, c.want) || response.Header().Get("Location") != c.location || strings.Contains(body, "stolen") {
			t.Errorf("%s: status %d, want %d %q, leads to %q:\n%s", name, response.Code, c.status, c.want, response.Header().Get("Location"), body)
		}
		set := cookies(response)
		if c.status != http.StatusSeeOther {
			if len(set) > 0 {
				t.Errorf("%s: the cookies are %v", name, set)
			}
			continue
		}
		if len(set) != 1 || set[0].Value != "viewer" || !set[0].HttpOnly || !set[0].Secure || set[0].SameSite != http.SameSiteStrictMode || set[0].Domain != "" {
			t.Errorf("%s: the cookies are %v", name, set)
		}
	}
	out := ask(http.MethodPost, "/sign-out", "viewer", url.Values{})
	if set := cookies(out); len(set) != 1 || set[0].Name != webui.TokenCookie || set[0].Value != "" || set[0].MaxAge >= 0 {
		t.Errorf("after the sign-out, the cookies are %v", set)
	}
}
