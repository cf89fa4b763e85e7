package webui_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"addon-operator/store"
)

func TestOverviewShowsFirstWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	view := newFixture(t, false).get("/")
	last := 0
	for _, want := range []string{
		"1 problem needs attention", "Needs attention", "no such host", "addon-operator task retry ", `<h2 id="modules">`, `<a href="/module/bad">bad</a>`,
		"The same in a terminal", "addon-operator status", "addon-operator diagnose",
	} {
		at := strings.Index(view, want)
		if at < last {
			t.Errorf("%q is at %d, after position %d:\n%s", want, at, last, view)
		}
		last = max(at, last)
	}
}

// link matches a link in the HTML of a view.
var link = regexp.MustCompile(`href="([^"]*)"`)

// crawl follows all links, beginning at the overview, and returns the views by path.
func (w *fixture) crawl() map[string]string {
	w.t.Helper()
	views := map[string]string{}
	for next := []string{"/"}; len(next) > 0; next = next[1:] {
		path := next[0]
		if _, known := views[path]; known || strings.HasPrefix(path, "/assets/") {
			continue
		}
		views[path] = w.get(path)
		for _, found := range link.FindAllStringSubmatch(views[path], -1) {
			to := html.UnescapeString(found[1])
			switch {
			case strings.HasPrefix(to, "#"):
				continue
			case strings.HasPrefix(to, "?"):
				to = path[:strings.IndexByte(path+"?", '?')] + to
			}
			to, _, _ = strings.Cut(to, "#")
			next = append(next, to)
		}
	}
	return views
}

func TestEveryLinkLeadsToAViewThatNamesItsCommand(t *testing.T) {
	t.Parallel()
	views := newFixture(t, true).crawl()
	for _, want := range []string{
		"/", "/modules", "/module/good", "/module/bad", "/runs", "/run/1", "/run/1?all=true", "/queues", "/queue/main", "/hooks", "/hook/bad/hooks/connect.sh",
		"/hook/settings.sh", "/values", "/values/bad", "/releases", "/release/good", "/release/good?diff=true", "/timeline",
	} {
		if _, reached := views[want]; !reached {
			t.Errorf("no link leads to %s", want)
		}
	}
	inline := regexp.MustCompile(`<script>|<style|\sstyle=|\son[a-z]+=|javascript:`)
	for path, view := range views {
		if strings.Count(view, "<h1>") != 1 || !strings.Contains(view, "<p><code>addon-operator ") || !strings.Contains(view, `<main id="main"`) {
			t.Errorf("%s has no heading, no main part or no command:\n%s", path, view)
		}
		if found := inline.FindString(view); found != "" {
			t.Errorf("%s has %q, which the policy forbids", path, found)
		}
		if strings.Contains(view, "ZgotmplZ") || strings.Contains(view, "<no value>") {
			t.Errorf("%s is not filled in:\n%s", path, view)
		}
	}
}

func TestSecretsAreRedactedInEveryView(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	for path, view := range w.crawl() {
		if strings.Contains(view, "hunter2") || strings.Contains(view, "new-secret") {
			t.Errorf("%s shows a secret:\n%s", path, view)
		}
	}
	if view := w.get("/hook/bad/hooks/connect.sh?show-secrets=true"); !strings.Contains(view, "password=(redacted)") || strings.Contains(view, "hunter2") {
		t.Errorf("the hook is shown as\n%s", view)
	}
	if view := html.UnescapeString(w.get("/release/good?diff=true&show-secrets=true")); !strings.Contains(view, "+kind: Secret") || strings.Contains(view, "new-secret") {
		t.Errorf("the difference is shown as\n%s", view)
	}
}

func TestViewsOfUnknownThingsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newFixture(t, false)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/module/none": {404, "no module is called"}, "/hook/none": {404, "no hook is called"}, "/queue/none": {404, "no queue is called"},
		"/run/99": {404, "there is no such run"}, "/run/x": {400, "the run must be a number"}, "/task/9-9": {404, "nothing about the subject"},
		"/values/none": {404, "no module is called"}, "/release/none": {404, "no module is called"}, "/why?subject=none": {404, "nothing about the subject"},
		"/timeline?since=yesterday": {400, "since must be a duration"}, "/timeline?limit=1000000": {400, "limit must be a number from 1 to 500"},
		"/runs?limit=0": {400, "limit must be a number"}, "/nowhere": {404, "404 page not found"},
	} {
		status, body := w.answer(w.request(http.MethodGet, path, ""))
		if status != want.status || !strings.Contains(html.UnescapeString(body), want.text) {
			t.Errorf("%s: status %d instead of %d, without %q:\n%s", path, status, want.status, want.text, body)
		}
	}
}

func TestTextOfHooksAndURLsIsNotReadAsHTML(t *testing.T) {
	t.Parallel()
	w := newFixture(t, false)
	if view := w.get("/timeline?subject=" + url.QueryEscape(`"><script>alert(1)</script>`)); strings.Contains(view, "<script>alert") {
		t.Errorf("the subject is HTML:\n%s", view)
	}
}

func TestPageOnlyShowsUnlessActionsAreAllowed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, false)
	for _, path := range []string{"/do/reload", "/do/module/good/run", "/do/pause/all", "/do/task/bad/retry"} {
		if status, body := w.post(path, url.Values{"by": {"alice"}, "reason": {"because"}}); status != http.StatusForbidden || !strings.Contains(body, "--web-actions") {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
	if all := w.actions(); len(all) > 0 {
		t.Errorf("actions were taken: %+v", all)
	}
	if view := w.get("/module/good"); strings.Contains(view, `method="post"`) || !strings.Contains(view, "addon-operator module run good") {
		t.Errorf("the view has buttons, or does not name the command:\n%s", view)
	}
}

func TestActionsDoWhatTheirCommandsDoAndAreStoredWithThePerson(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	do := func(path string, form url.Values, said string, want store.Action) {
		t.Helper()
		form.Set("by", "alice")
		status, body := w.post("/do/"+path, form)
		if status != http.StatusOK || !strings.Contains(body, said) {
			t.Fatalf("%s: status %d: %s", path, status, body)
		}
		got := w.actions()[0]
		if got.Verb != want.Verb || got.What != want.What || got.Reason != want.Reason || got.By != "alice" {
			t.Errorf("%s is stored as %+v", path, got)
		}
	}
	do("pause/module", url.Values{"name": {"good"}, "reason": {"a test"}}, "module good paused", store.Action{Verb: "pause", What: "module good", Reason: "a test"})
	if view := w.get("/module/good"); !strings.Contains(view, "Resume module good") || !strings.Contains(view, "paused") {
		t.Errorf("the pause is not shown:\n%s", view)
	}
	do("resume/module", url.Values{"name": {"good"}}, "module good resumed", store.Action{Verb: "resume", What: "module good"})
	do("pause/all", url.Values{"reason": {"a test"}}, "all work paused", store.Action{Verb: "pause", What: "all", Reason: "a test"})
	do("resume/all", url.Values{}, "all work resumed", store.Action{Verb: "resume", What: "all"})
	do("module/good/run", url.Values{}, "module run of good requested", store.Action{Verb: "module run", What: "good"})
	do("reload", url.Values{"reason": {"new files"}}, "reload requested", store.Action{Verb: "reload", Reason: "new files"})
	var task []string
	w.until("the overview names the task that failed again", func() bool {
		task = regexp.MustCompile(`task retry (\d+-\d+)`).FindStringSubmatch(w.get("/"))
		if task == nil {
			return false
		}
		view := w.get("/task/" + task[1])
		return strings.Contains(view, `action="/do/task/`+task[1]+`/skip"`) && !strings.Contains(view, "/cancel")
	})
	w.mend()
	do("task/"+task[1]+"/retry", url.Values{}, "is tried again", store.Action{Verb: "task retry", What: task[1]})
	w.until("nothing needs attention", func() bool { return strings.Contains(w.get("/"), "nothing needs attention") })
}

func TestActionWithoutANameOrItsReasonIsRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	for _, test := range []struct {
		path, want string
		form       url.Values
		status     int
	}{
		{"pause/all", "needs a reason", url.Values{"by": {"alice"}}, 400},
		{"task/1-1/skip", "needs a reason", url.Values{"by": {"alice"}, "reason": {" "}}, 400},
		{"reload", "your name is missing", url.Values{}, 400},
		{"config/set", "there is no action", url.Values{"by": {"alice"}}, 404},
		{"webhooks/withdraw", "there is no action", url.Values{"by": {"alice"}}, 404},
		{"task/1-1/retry/now", "there is no action", url.Values{"by": {"alice"}}, 404},
		{"module/../run", "", url.Values{"by": {"alice"}}, 404},
		{"module/none/run", "no module is called", url.Values{"by": {"alice"}}, 404},
		{"pause/planet", "there is no kind of work", url.Values{"by": {"alice"}, "reason": {"x"}, "name": {"mars"}}, 404},
	} {
		if status, body := w.post("/do/"+test.path, test.form); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s: status %d instead of %d, without %q: %s", test.path, status, test.status, test.want, body)
		}
	}
	if all := w.actions(); len(all) > 0 {
		t.Errorf("actions were taken: %+v", all)
	}
}

func TestActionThatAnotherSiteSendsIsRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	for name, header := range map[string][2]string{
		"a browser that says so": {"Sec-Fetch-Site", "cross-site"}, "another port of this host": {"Sec-Fetch-Site", "same-site"},
		"an older browser": {"Origin", "https://example.com"},
	} {
		request := w.request(http.MethodPost, "/do/reload", "by=mallory")
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set(header[0], header[1])
		if status, body := w.answer(request); status != http.StatusForbidden {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
	}
	if all := w.actions(); len(all) > 0 {
		t.Errorf("actions were taken: %+v", all)
	}
}

func TestAnswerToAnActionLeadsBackToThisPageOnly(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	for back, want := range map[string]string{
		"/module/good?a=b": `<a href="/module/good?a=b">Go back</a>`, "https://example.com": `<a href="/">Go back</a>`,
		"//example.com": `<a href="/">Go back</a>`, `/\example.com`: `<a href="/">Go back</a>`, "/\t/example.com": `<a href="/">Go back</a>`,
	} {
		if _, body := w.post("/do/reload", url.Values{"by": {"alice"}, "back": {back}}); !strings.Contains(body, want) {
			t.Errorf("back to %q:\n%s", back, body)
		}
	}
}

func TestBrowsersAreToldToRunNoOtherScript(t *testing.T) {
	t.Parallel()
	w := newFixture(t, false)
	for _, path := range []string{"/", "/run/x", "/assets/page.js"} {
		response, err := w.server.Client().Do(w.request(http.MethodGet, path, ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		policy := response.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy is %q", path, policy)
			}
		}
		if response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, response.Header)
		}
	}
}

func TestOpenViewIsToldOfEachCommit(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	response, err := w.server.Client().Do(w.request(http.MethodGet, "/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := bufio.NewScanner(response.Body)
	next := func() {
		t.Helper()
		for events.Scan() {
			if events.Text() == "data: p1" {
				return
			}
		}
		t.Fatalf("the stream ended: %v", events.Err())
	}
	next() // the first event is sent before any commit
	for range 3 {
		if err := w.db.Update(func(tx *store.Tx) error { return store.AddAction(tx, store.Action{Verb: "reload", By: "alice"}) }); err != nil {
			t.Fatal(err)
		}
		next()
	}
}

func TestFilesOfThePageAreSmall(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("assets/*")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the path names a source file of the page
		if err == nil {
			_, err = zip.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if packed.Len() > 300<<10 {
		t.Errorf("they have %d bytes when compressed", packed.Len())
	}
}
