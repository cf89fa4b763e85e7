package webui

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
)

// TestACommandLineHasItsArgumentsInAShell runs command lines of the page in a real shell, which prints their arguments.
// The arguments must be those from which the page made the command line.
func TestACommandLineHasItsArgumentsInAShell(t *testing.T) {
	t.Parallel()
	const letters = "aZ9-_./:=@%+, '\"\\$`!*?[]{}()<>|&;~#^\t\n"
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test with a fixed seed
	lists := [][]string{{"why", "web"}, {"pause", "module", "web", "--reason", "it's broken"}, {""}, {"-n", "5"}}
	for range 20 {
		var args []string
		for range 1 + random.IntN(4) {
			arg := make([]byte, random.IntN(12))
			for i := range arg {
				arg[i] = letters[random.IntN(len(letters))]
			}
			args = append(args, string(arg))
		}
		lists = append(lists, args)
	}
	var script, want strings.Builder
	script.WriteString("addon-operator() { for arg; do printf '<%s>\\n' \"$arg\"; done; }\n")
	for _, args := range lists {
		script.WriteString((*frame)(nil).Shell(args) + "\n")
		for _, arg := range args {
			fmt.Fprintf(&want, "<%s>\n", arg)
		}
	}
	// In POSIX shells, the name of a function must not contain a hyphen, so the script uses another name for the program.
	text := strings.ReplaceAll(script.String(), program, "program")
	got, err := exec.CommandContext(t.Context(), "sh", "-c", text).CombinedOutput()
	if diff := cmp.Diff(want.String(), string(got)); err != nil || diff != "" {
		t.Errorf("error %v, arguments (-want +got):\n%s", err, diff)
	}
}

func TestACommandLineIsQuotedOnlyWhereItMustBe(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"addon-operator why web/hooks/a.sh":                            {"why", "web/hooks/a.sh"},
		"addon-operator reload --allow-purge=2":                        {"reload", "--allow-purge=2"},
		`addon-operator pause all --reason 'it'\''s broken'`:           {"pause", "all", "--reason", "it's broken"},
		"addon-operator why ''":                                        {"why", ""},
		"addon-operator timeline 'größe'":                              {"timeline", "größe"},
		"addon-operator values explain web image.tag,a=b+c@d:e%25_f-g": {"values", "explain", "web", "image.tag,a=b+c@d:e%25_f-g"},
	} {
		if got := (*frame)(nil).Shell(args); got != want {
			t.Errorf("%q is %s, want %s", args, got, want)
		}
	}
}

// TestNamesInPathsReachTheirView sends requests to a mux with the patterns of the views. The paths contain names with
// characters that must be escaped. Each request must reach its view, which must receive the name without escapes.
func TestNamesInPathsReachTheirView(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	var reached, value string
	for _, v := range views {
		mux.HandleFunc("GET "+v.path, func(_ http.ResponseWriter, r *http.Request) {
			reached, value = v.template, ""
			for _, name := range []string{"module", "run", "queue", "task", "hook"} {
				value += r.PathValue(name)
			}
			if s := r.FormValue("subject"); s != "" {
				value = s
			}
		})
	}
	const odd = `a b?c#d%e"f&g+h;ü`
	for path, want := range map[string][2]string{
		links{}.RunURL(18446744073709551615):       {"run", "18446744073709551615"},
		links{}.ModuleURL(odd):                     {"module", odd},
		links{}.ModuleURL("a/b"):                   {"module", "a/b"},
		links{}.QueueURL("configuration/n/" + odd): {"queue", "configuration/n/" + odd},
		links{}.QueueURL("/modules/100-web/pods"):  {"queue", "/modules/100-web/pods"},
		links{}.QueueURL("a//b"):                   {"queue", "a//b"},
		links{}.QueueURL("a/../b/"):                {"queue", "a/../b/"},
		links{}.ReleaseURL(odd):                    {"release", odd},
		links{}.ValuesURL(odd):                     {"values", odd},
		links{}.HookURL("web", "hooks/"+odd):       {"hook", "web/hooks/" + odd},
		links{}.HookURL("", "g.sh"):                {"hook", "g.sh"},
		links{}.TaskURL("1-2"):                     {"task", "1-2"},
		links{}.TaskURL(store.ID{Epoch: 3, N: 4}):  {"task", "3-4"},
		links{}.TimelineURL(odd):                   {"timeline", odd},
		links{}.LogsURL(odd):                       {"logs", odd},
		links{}.WhyURL(odd):                        {"why", odd},
		links{}.TimelineURL(""):                    {"timeline", ""},
	} {
		reached, value = "", ""
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if reached != want[0] || value != want[1] {
			t.Errorf("%s reaches the view %q of %q, want %q", path, reached, value, want)
		}
	}
}

func TestACommandIsLinkedToTheViewThatShowsTheSame(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]viewLink{
		"workflow inspect 7":       {"/run/7", "run 7"},
		"workflow list":            {"/runs", "runs"},
		"queue list --show-empty":  {"/queues", "queues"},
		"queue main":               {"/queue/main", "queue main"},
		"queue show a/b":           {"/queue/a/b", "queue a/b"},
		"queue show /a/b":          {"/queue/%2Fa%2Fb", "queue /a/b"},
		"module list":              {"/modules", "modules"},
		"hook list":                {"/hooks", "hooks"},
		"status":                   {"/", "overview"},
		"diagnose":                 {"/", "overview"},
		"timeline":                 {"/timeline", "timeline"},
		"timeline web -n 20":       {"/timeline?subject=web", "timeline web"},
		"timeline -n 20":           {"/timeline", "timeline"},
		"logs web/hooks/a.sh -n 1": {"/logs?subject=web%2Fhooks%2Fa.sh", "output web/hooks/a.sh"},
		"why web":                  {"/why?subject=web", "why web"},
		"task retry 1-2":           {"/task/1-2", "task 1-2"},
		"task":                     {},
		"reload":                   {},
		"module run web":           {},
		"pause module web":         {},
		"":                         {},
	} {
		if got := commandView(strings.Fields(command)); got != want {
			t.Errorf("%q is linked to %+v, want %+v", command, got, want)
		}
	}
}

func TestAPathBelowDoIsOneActionOrNone(t *testing.T) {
	t.Parallel()
	form := url.Values{"name": {"web"}}
	for path, want := range map[string]string{
		"reload":              "reload; create reloads",
		"module/web/run":      "module run web; create modules/run web",
		"pause/module":        "pause module web; create pauses",
		"resume/hook":         "resume hook web; delete pauses",
		"task/1-2/retry":      "task retry 1-2; create tasks/retry",
		"task/1-2/skip":       "task skip 1-2; create tasks/skip",
		"task/1-2/release":    "task release 1-2; create tasks/release",
		"task/1-2/cancel":     "task cancel 1-2; create tasks/cancel",
		"":                    "",
		"reload/":             "",
		"/reload":             "",
		"reload/now":          "",
		"module//run":         "",
		"module/a/b/run":      "",
		"module/web/restart":  "",
		"task/1-2":            "",
		"pause":               "",
		"webhooks/withdraw":   "",
		"config/set":          "",
		"{}":                  "",
		"module/web/run/more": "",
	} {
		got := ""
		if a, parts := actionAt(path); a != nil {
			right := strings.TrimSuffix(a.rightOf(parts).String(), " in the API group addon-operator")
			got = strings.Join(a.command(parts, form), " ") + "; " + right
		}
		if got != want {
			t.Errorf("%q is the action %q, want %q", path, got, want)
		}
	}
}

func TestNoRightIsListedTwice(t *testing.T) {
	t.Parallel()
	see, act := Rights()
	want := []Right{{Verb: "get", Resource: "status"}, {Verb: "get", Resource: "values"}, {Verb: "get", Resource: "releases"}, {Verb: "get", Resource: "output"}}
	if diff := cmp.Diff(want, see); diff != "" {
		t.Errorf("rights of views (-want +got):\n%s", diff)
	}
	for i, right := range act {
		if slices.Contains(act[:i], right) {
			t.Errorf("the right %+v of actions is listed twice", right)
		}
	}
	if len(act) != len(actions) {
		t.Errorf("%d rights of %d actions", len(act), len(actions))
	}
}

func TestANameIsRememberedInTheBrowserAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alice", "Ælfrīc of Eynsham", `a;b="c", d%20e`, ""} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.AddCookie(&http.Cookie{Name: nameCookie, Value: url.QueryEscape(name), Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		if got := requester(r); got != name {
			t.Errorf("%q is remembered as %q", name, got)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if got := requester(r); got != "" {
		t.Errorf("without a cookie, the name is %q", got)
	}
	r.Header.Set("Cookie", nameCookie+"=%zz")
	if got := requester(r); got != "" {
		t.Errorf("with a damaged cookie, the name is %q", got)
	}
}

func TestTheStartOfATimelineIsATimeOrADurationBeforeNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h": now.Add(-2 * time.Hour), "1h30m": now.Add(-90 * time.Minute), "2026-03-04T05:00:00Z": time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC),
		"2026-03-04T05:00:00+02:00": time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceOf(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, error %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0s", "-2h", "2", "2026-03-04", "tomorrow"} {
		want := fmt.Sprintf("since must be a duration such as 2h, or a time such as 2006-01-02T15:04:05Z (got %q)", text)
		if _, err := sinceOf(text, now); err == nil || err.Error() != want {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestALimitIsANumberOfEntriesOrTheDefault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 20, "1": 1, "500": 500, "0": 0, "501": 0, "-1": 0, "x": 0, "1.5": 0} {
		got, err := limitOf(httptest.NewRequest(http.MethodGet, "/?limit="+text, http.NoBody), 20)
		if got != want || (err == nil) != (want > 0) || err != nil && err.Error() != fmt.Sprintf("limit must be a number from 1 to 500 (got %q)", text) {
			t.Errorf("limit %q: %d, error %v, want %d", text, got, err, want)
		}
	}
}

func TestAnAnswerWithAStatusOfAnErrorIsAnErrorWithItsText(t *testing.T) {
	t.Parallel()
	s := source{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late.json":
			_, _ = w.Write([]byte(`{"a":1}`))
			w.WriteHeader(http.StatusTeapot) // has no effect, because Write has already set the status 200
		case "/moved.json":
			w.WriteHeader(http.StatusSeeOther)
		case "/broken.json":
			_, _ = w.Write([]byte(`{"a":`))
		case "/query.json":
			_, _ = fmt.Fprintf(w, `{"a":%s}`, r.FormValue("n"))
		case "/silent.json":
		case "/post":
			_, _ = fmt.Fprintf(w, "  %s by %s\n\n", r.PostFormValue("what"), r.Method)
		default:
			http.Error(w, "nothing at "+r.URL.Path, http.StatusNotFound)
		}
	})}
	for path, c := range map[string]struct {
		a    int
		want string
	}{
		"/late":   {1, ""},
		"/query":  {7, ""},
		"/other":  {0, "404: nothing at /other.json"},
		"/moved":  {0, "303: "},
		"/broken": {0, "500: read the answer to /broken: unexpected end of JSON input"},
		"/silent": {0, "500: read the answer to /silent: unexpected end of JSON input"},
	} {
		var into struct{ A int }
		err := s.get(t.Context(), path, url.Values{"n": {"7"}}, &into)
		got := ""
		if err != nil {
			status := http.StatusInternalServerError
			if e := (*answerError)(nil); errors.As(err, &e) {
				status = e.status
			}
			got = fmt.Sprintf("%d: %v", status, err)
		}
		if got != c.want || into.A != c.a {
			t.Errorf("%s: %+v, error %q, want %d and %q", path, into, got, c.a, c.want)
		}
	}
	if said, err := s.post(t.Context(), "/post", url.Values{"what": {"a&b"}}); said != "a&b by POST" || err != nil {
		t.Errorf("the answer to a form is %q, error %v", said, err)
	}
}

func TestQuestionsThatAreAskedTogetherAllEndBeforeTheFirstErrorIsReturned(t *testing.T) {
	t.Parallel()
	first, ended := make(chan struct{}), false
	wrong := errors.New("no answer")
	err := together(
		func() error { defer close(first); return wrong },
		func() error { <-first; ended = true; return nil },
	)
	if !errors.Is(err, wrong) || !ended {
		t.Errorf("error %v, the other question has ended: %t", err, ended)
	}
	if err := together(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestALineOfADifferenceIsAddedRemovedOrAHeading(t *testing.T) {
	t.Parallel()
	const text = "diff web as released web as rendered now\n--- web as released\n+++ web as rendered now\n@@ -1,6 +1,4 @@\n" +
		" ---\n a: 1\n-b: 2\n+b: 3\n----\n-++ c\n+-- d\n+++ e\n--- f\n@@ -9 +9 @@\n-g\n\\ No newline at end of file\n"
	var got []string
	for _, l := range diffLines(text) {
		got = append(got, strings.TrimPrefix(l.Class+"|"+l.Text, "|"))
	}
	want := []string{
		"head|diff web as released web as rendered now", "head|--- web as released", "head|+++ web as rendered now", "head|@@ -1,6 +1,4 @@",
		" ---", " a: 1", "removed|-b: 2", "added|+b: 3", "removed|----", "removed|-++ c", "added|+-- d", "added|+++ e", "removed|--- f", "head|@@ -9 +9 @@", "removed|-g",
		`\ No newline at end of file`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]diffLine{{"", "no difference"}}, diffLines("no difference\n")); diff != "" {
		t.Errorf("no difference (-want +got):\n%s", diff)
	}
	if lines := diffLines(""); lines != nil {
		t.Errorf("an empty text has the lines %+v", lines)
	}
}
