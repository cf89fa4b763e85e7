package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

func TestAReviewHasASupportedVersionAndKindAndARequest(t *testing.T) {
	t.Parallel()
	const admission = `{"apiVersion":"admission.k8s.io/%s","kind":"%s","request":%s}`
	const conversion = `{"apiVersion":"apiextensions.k8s.io/%s","kind":"%s","request":%s}`
	for name, test := range map[string]struct{ text, want string }{
		"admission":                      {fmt.Sprintf(admission, "v1", "AdmissionReview", `{"uid":"1"}`), ""},
		"old admission":                  {fmt.Sprintf(admission, "v1beta1", "AdmissionReview", `{"uid":"1"}`), ""},
		"newer admission":                {fmt.Sprintf(admission, "v2", "AdmissionReview", `{"uid":"1"}`), `the review must be a AdmissionReview of admission.k8s.io/v1 or v1beta1, not "AdmissionReview" of "admission.k8s.io/v2"`},
		"other kind":                     {fmt.Sprintf(admission, "v1", "ConversionReview", `{"uid":"1"}`), `the review must be a AdmissionReview of admission.k8s.io/v1 or v1beta1, not "ConversionReview" of "admission.k8s.io/v1"`},
		"admission without request":      {fmt.Sprintf(admission, "v1", "AdmissionReview", `null`), "the AdmissionReview has no request with a uid"},
		"admission without uid":          {fmt.Sprintf(admission, "v1", "AdmissionReview", `{"dryRun":true}`), "the AdmissionReview has no request with a uid"},
		"conversion":                     {fmt.Sprintf(conversion, "v1", "ConversionReview", `{"uid":"1","desiredAPIVersion":"x/v1"}`), ""},
		"old conversion":                 {fmt.Sprintf(conversion, "v1beta1", "ConversionReview", `{"uid":"1","desiredAPIVersion":"x/v1"}`), ""},
		"conversion of another group":    {fmt.Sprintf(admission, "v1", "ConversionReview", `{"uid":"1","desiredAPIVersion":"x/v1"}`), `the review must be a ConversionReview of apiextensions.k8s.io/v1 or v1beta1, not "ConversionReview" of "admission.k8s.io/v1"`},
		"conversion without request":     {fmt.Sprintf(conversion, "v1", "ConversionReview", `null`), "the ConversionReview has no request with a uid and a desiredAPIVersion"},
		"conversion without uid":         {fmt.Sprintf(conversion, "v1", "ConversionReview", `{"desiredAPIVersion":"x/v1"}`), "the ConversionReview has no request with a uid and a desiredAPIVersion"},
		"conversion without its version": {fmt.Sprintf(conversion, "v1", "ConversionReview", `{"uid":"1"}`), "the ConversionReview has no request with a uid and a desiredAPIVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			if strings.Contains(name, "conversion") {
				_, err = readConversion([]byte(test.text))
			} else {
				_, err = readAdmission([]byte(test.text))
			}
			if got := errorText(err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// errorText returns the text of an error, which is empty for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAConvertedObjectDiffersOnlyInItsVersion(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{"apiVersion":"x.io/v1","kind":"T"}`:                     `{"apiVersion":"x.io/v2","kind":"T"}`,
		`{"kind":"T"}`:                                            `{"apiVersion":"x.io/v2","kind":"T"}`,
		`{"apiVersion":"x.io/v1","spec":{"b":1,"a":[1.0,1e3]}}`:   `{"apiVersion":"x.io/v2","spec":{"b":1,"a":[1.0,1e3]}}`,
		`{"apiVersion":"x.io/v1","n":123456789012345678901234.5}`: `{"apiVersion":"x.io/v2","n":123456789012345678901234.5}`,
		`null`: "error: an object to convert is not a JSON object",
		`[]`:   "error: an object to convert: json: cannot unmarshal array into Go value of type map[string]json.RawMessage",
		`{`:    "error: an object to convert: unexpected end of JSON input",
	} {
		changed, err := relabelled(json.RawMessage(object), "x.io/v2")
		got := string(changed)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s became %s, want %s", object, got, want)
		}
	}
}

func TestAReviewEndsShortlyBeforeTheAPIServerStopsWaiting(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		"":               10 * time.Second,
		"?timeout=3s":    3 * time.Second,
		"?timeout=500ms": 500 * time.Millisecond,
		"?timeout=30s":   10 * time.Second, // the timeout of the webhook is 10 s
		"?timeout=0s":    10 * time.Second,
		"?timeout=-5s":   10 * time.Second,
		"?timeout=x":     10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := within(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/x"+query, nil), 10*time.Second)
			defer cancel()
			<-ctx.Done()
			if took := time.Since(began); took != want-margin {
				t.Errorf("%q ends after %s, want %s", query, took, want-margin)
			}
			if got := context.Cause(ctx).Error(); got != fmt.Sprintf("it did not answer within %s", want) {
				t.Errorf("%q ends with %q", query, got)
			}
		})
	}
}

func TestResultsFollowFromTheErrorOfAReview(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	failed := fmt.Errorf("%w: exit status 1", ErrHookFailed)
	empty := fmt.Errorf("x.sh: %w", hook.ErrNoResponse)
	full := fmt.Errorf("x.sh: %w: no space left for the store", ErrNotApplied)
	for name, test := range map[string]struct {
		ctx  context.Context //nolint:containedctx // the context is an argument of a test case
		err  error
		want Result
	}{
		"none":                         {t.Context(), nil, Done},
		"failed hook":                  {t.Context(), failed, Failed},
		"no response":                  {t.Context(), empty, Empty},
		"other":                        {t.Context(), errors.New("the store is full"), Broken},
		"failed hook after the end":    {ended, failed, TimedOut},
		"other after the end":          {ended, errors.New("canceled"), TimedOut},
		"not applied":                  {t.Context(), full, Broken},
		"not applied until the end":    {ended, full, Broken},
		"success, although at the end": {ended, nil, Done},
	} {
		if got := resultOf(test.ctx, test.err, Done); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// If a hook has ended in time, but its output is not applied before the API server stops waiting, the response must
// name the reason. If the hook has not ended, the response must say that the API server stops waiting.
func TestATimeoutNamesTheReasonWhyTheOutputOfAHookIsNotApplied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a hook that does not end": {fmt.Errorf("%w: m/hooks/x.sh: signal: killed", ErrHookFailed), "hook m/hooks/x.sh: the API server stops waiting"},
		"a full disk":              {fmt.Errorf("m/hooks/x.sh: %w: no space left", ErrNotApplied), "m/hooks/x.sh: output not applied: no space left"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := NewServer(Options{AtOnce: 1, Ask: func(context.Context, ReviewRequest) (Answer, error) {
			cancel(errors.New("the API server stops waiting"))
			return Answer{}, test.err
		}})
		if _, err := s.ask(ctx, ReviewRequest{Asked: Asked{Module: "m", Hook: "hooks/x.sh"}}); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// conversionOf returns a ConversionReview that requests the version wanted for one object of each of the versions.
func conversionOf(wanted string, versions ...string) string {
	var objects []string
	for _, version := range versions {
		objects = append(objects, `{"apiVersion":"x.io/`+version+`"}`)
	}
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u-1","desiredAPIVersion":"x.io/` + wanted + `","objects":[` +
		strings.Join(objects, ",") + `]}}`
}

// reviewed posts a review to a server, and returns the status code, the response and the report.
func reviewed(t *testing.T, table Table, ask Ask, path, text string) (code int, response string, report Report) {
	t.Helper()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	s := NewServer(Options{
		Ask: ask, AtOnce: 1, Observe: func(r Report) { report = r },
		Clock: func() time.Time { now = now.Add(time.Second); return now },
	})
	s.Serve(table)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(text)))
	return w.Code, strings.TrimSpace(w.Body.String()), report
}

func TestReportsOfConversionsNameTheHooksThatAnswered(t *testing.T) {
	t.Parallel()
	table := Table{Conversions: conversionsOf([2]string{"v1", "v2"}, [2]string{"v2", "v3"})}
	first, second := table.Conversions[0].Asked, table.Conversions[1].Asked
	const head = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":`
	for name, test := range map[string]struct {
		text     string
		second   func(q ReviewRequest) (Answer, error) // answer of the second hook
		code     int
		response string
		want     Report
	}{
		"converted": {
			conversionOf("v3", "v1"),
			func(q ReviewRequest) (Answer, error) {
				converted, err := relabelAll(q.Objects, q.Version)
				return Answer{Converted: converted, Ran: 4 * time.Second}, err
			},
			http.StatusOK, head + `{"uid":"u-1","convertedObjects":[{"apiVersion":"x.io/v3"}],"result":{"status":"Success"}}}`,
			Report{Asked: second, Answered: []Asked{first, second}, Result: Done, Ran: 7 * time.Second},
		},
		"nothing to convert": {
			conversionOf("v3", "v3"), nil,
			http.StatusOK, head + `{"uid":"u-1","convertedObjects":[{"apiVersion":"x.io/v3"}],"result":{"status":"Success"}}}`,
			Report{Result: Done},
		},
		"refused by the second hook": {
			conversionOf("v3", "v1"),
			func(ReviewRequest) (Answer, error) {
				return Answer{Converted: hook.Converted{Failed: "size is missing"}, Ran: 4 * time.Second}, nil
			},
			http.StatusOK, head + `{"uid":"u-1","result":{"status":"Failure","message":"size is missing"}}}`,
			Report{Asked: second, Answered: []Asked{first}, Result: Refused, Message: "size is missing", Ran: 7 * time.Second},
		},
		"failed second hook": {
			conversionOf("v3", "v1"),
			func(ReviewRequest) (Answer, error) {
				return Answer{Ran: 4 * time.Second}, fmt.Errorf("%w: secret", ErrHookFailed)
			},
			http.StatusOK, head + `{"uid":"u-1","result":{"status":"Failure","message":"Hook failed"}}}`,
			Report{Asked: second, Answered: []Asked{first}, Result: Failed, Message: HookFailed, Ran: 7 * time.Second, Err: errors.New("hook failed: secret")},
		},
		"second hook without response": {
			conversionOf("v3", "v1"),
			func(ReviewRequest) (Answer, error) { return Answer{}, fmt.Errorf("x.sh: %w", hook.ErrNoResponse) },
			http.StatusInternalServerError, "x.sh: " + hook.ErrNoResponse.Error(),
			Report{Asked: second, Answered: []Asked{first}, Result: Empty, Ran: 3 * time.Second, Err: errors.New("x.sh: " + hook.ErrNoResponse.Error())},
		},
		"no chain": {
			conversionOf("v1", "v2"), nil,
			http.StatusOK, head + `{"uid":"u-1","result":{"status":"Failure","message":"no hooks convert things.x.io from x.io/v2 to x.io/v1"}}}`,
			Report{Result: Refused, Message: "no hooks convert things.x.io from x.io/v2 to x.io/v1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, response, report := reviewed(t, table, func(_ context.Context, q ReviewRequest) (Answer, error) {
				if q.Asked == second {
					return test.second(q)
				}
				converted, err := relabelAll(q.Objects, q.Version)
				return Answer{Converted: converted, Ran: 3 * time.Second}, err
			}, "/things.x.io", test.text)
			if code != test.code || response != test.response {
				t.Errorf("got  %d %s\nwant %d %s", code, response, test.code, test.response)
			}
			test.want.Type, test.want.UID, test.want.Took = hook.TypeConversion, "u-1", time.Second
			if diff := cmp.Diff(test.want, report, cmp.Comparer(func(a, b error) bool { return errorText(a) == errorText(b) })); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHookOfAConversionGetsOnlyObjectsOfOneVersion(t *testing.T) {
	t.Parallel()
	table := Table{Conversions: conversionsOf([2]string{"v1", "v3"}, [2]string{"v2", "v3"})}
	var asked []string
	code, response, _ := reviewed(t, table, func(_ context.Context, q ReviewRequest) (Answer, error) {
		asked = append(asked, fmt.Sprintf("%s from %s to %s (%s): %s", q.Hook, q.FromVersion, q.ToVersion, q.Version, q.Review))
		converted, err := relabelAll(q.Objects, q.Version)
		return Answer{Converted: converted}, err
	}, "/things.x.io", conversionOf("v3", "v2", "v1", "v2"))
	if code != http.StatusOK || strings.Count(response, "x.io/v3") != 3 {
		t.Errorf("got %d %s", code, response)
	}
	review := func(objects string) string {
		return `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u-1","desiredAPIVersion":"x.io/v3","objects":[` + objects + `]}}`
	}
	want := []string{
		`hook-1 from v2 to v3 (x.io/v3): ` + review(`{"apiVersion":"x.io/v2"},{"apiVersion":"x.io/v2"}`),
		`hook-0 from v1 to v3 (x.io/v3): ` + review(`{"apiVersion":"x.io/v1"}`),
	}
	if !slices.Equal(asked, want) {
		t.Errorf("got  %q\nwant %q", asked, want)
	}
}

func TestAWithdrawnWebhookReportsThatNoHookWasCalled(t *testing.T) {
	t.Parallel()
	a, m := admission("a.b.c", false), admission("a.b.d", true)
	var reports []Report
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	s := NewServer(Options{AtOnce: 1, Observe: func(r Report) { reports = append(reports, r) }, Clock: func() time.Time { return now }})
	s.Serve(Table{Admissions: []Admission{a, m}, Conversions: conversionsOf([2]string{"v1", "v2"})})
	s.Serve(Table{Complete: true})
	s.Serve(Table{Complete: true}) // the paths are remembered until the process ends
	for path, c := range map[string]struct {
		text string
		of   hook.Type
	}{
		a.path(): {asked, hook.TypeValidating}, m.path(): {asked, hook.TypeMutating},
		"/things.x.io": {conversionOf("v2", "v1"), hook.TypeConversion},
	} {
		reports = nil
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(c.text)))
		if len(reports) == 1 && reports[0].Type != c.of {
			t.Errorf("%s: reported as a review for a %s binding, want %s", path, reports[0].Type, c.of)
		}
		if w.Code != http.StatusOK || len(reports) != 1 || reports[0].Result != Withdrawn || reports[0].Hook != "" || reports[0].Err != nil {
			t.Errorf("%s: got %d %s, reported as %+v", path, w.Code, w.Body, reports)
		}
	}
}

func TestARequestForAnUnknownPathIsNotReported(t *testing.T) {
	t.Parallel()
	a := admission("a.b.c", false)
	table := Table{Admissions: []Admission{a}, Conversions: conversionsOf([2]string{"v1", "v2"})}
	for path, text := range map[string]string{
		"/hooks/other": asked, "/others.x.io": conversionOf("v2", "v1"), a.path(): "{", "/things.x.io": "{",
	} {
		code, response, report := reviewed(t, table, nil, path, text)
		if code < http.StatusBadRequest || code >= http.StatusInternalServerError || response == "" || report.Result != "" {
			t.Errorf("%s: got %d %s, reported as %+v", path, code, response, report)
		}
	}
}

func TestPathsOfBindingsAreUniqueAndKeptAcrossProcesses(t *testing.T) {
	t.Parallel()
	a := Admission{Asked: Asked{Module: "web", Hook: "hooks/x.sh", Binding: "b"}, Config: hook.AdmissionBinding{Name: "pods.example.com"}}
	if got, want := a.path(), "/hooks/pods.example.com-0ace8275"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	seen := map[string]string{a.path(): "the first one"}
	for name, change := range map[string]func(*Admission){
		"mutating":             func(a *Admission) { a.Mutating = true },
		"module":               func(a *Admission) { a.Module = "other" },
		"hook":                 func(a *Admission) { a.Hook = "hooks/y.sh" },
		"binding":              func(a *Admission) { a.Binding = "c" },
		"name":                 func(a *Admission) { a.Config.Name = "jobs.example.com" },
		"module and hook":      func(a *Admission) { a.Module, a.Hook = "web\x00hooks", "x.sh" },
		"global hook":          func(a *Admission) { a.Module = "" },
		"global hook in a dir": func(a *Admission) { a.Module, a.Hook = "", "web/hooks/x.sh" },
	} {
		other := a
		change(&other)
		if as, ok := seen[other.path()]; ok {
			t.Errorf("another %s has the path of %s", name, as)
		}
		seen[other.path()] = name
	}
	timeout := a
	timeout.Config.TimeoutSeconds = 30
	if timeout.path() != a.path() {
		t.Error("another timeout changes the path")
	}
}
