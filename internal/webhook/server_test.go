package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"addon-operator/internal/hook"
)

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// fixture is a running server, with an HTTP client that it accepts.
type fixture struct {
	*Server
	url    string
	client *http.Client
}

func serve(t *testing.T, table Table, ask Ask, atOnce int, observe func(Report)) *fixture {
	t.Helper()
	ca, err := newAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.pair([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	rotator := NewRotator(0, time.Now, nil, nil)
	rotator.Offer(pair)
	s := NewServer(Options{Ask: ask, AtOnce: atOnce, Clock: time.Now, Observe: observe, Log: stdlog.New(io.Discard, "", 0)})
	s.Serve(table)
	port, err := s.Listen(t.Context(), "127.0.0.1:0", rotator, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(func() { s.Stop(t.Context()); transport.CloseIdleConnections() })
	return &fixture{s, fmt.Sprintf("https://127.0.0.1:%d", port), &http.Client{Transport: transport}}
}

func (s *fixture) post(t *testing.T, path, text string) (code int, answer string) {
	t.Helper()
	response, err := s.client.Post(s.url+path, "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

const asked = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","dryRun":true,"object":{"kind":"X"}}}`

func admission(name string, mutating bool) Admission {
	return Admission{Asked{"m", "hooks/x.sh", name}, mutating, hook.AdmissionBinding{Name: name, TimeoutSeconds: 10}}
}

func TestVerdictsAreAnswersTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	patch := json.RawMessage(`[{"op":"remove","path":"/a"}]`)
	for name, c := range map[string]struct {
		answer Answer
		err    error
		want   string // a part of the response or of the error text
		result Result
	}{
		"allowed": {Answer{Verdict: hook.Verdict{Allowed: true, Warnings: []string{"w"}}}, nil, `{"uid":"u-1","allowed":true,"warnings":["w"]}`, Allowed},
		"denied":  {Answer{Verdict: hook.Verdict{Message: "no"}}, nil, `{"uid":"u-1","allowed":false,"status":{"metadata":{},"message":"no","code":403}}`, Denied},
		"patched": {Answer{Verdict: hook.Verdict{Allowed: true, Patch: patch}}, nil, `{"uid":"u-1","allowed":true,"patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=","patchType":"JSONPatch"}`, Allowed},
		"failed":  {Answer{Verdict: hook.Verdict{Allowed: true}}, fmt.Errorf("%w: secret", ErrHookFailed), `{"uid":"u-1","allowed":false,"status":{"metadata":{},"message":"Hook failed","code":403}}`, Failed},
		"empty":   {Answer{}, fmt.Errorf("x: %w", hook.ErrNoResponse), "x: the hook wrote no response", Empty},
		"broken":  {Answer{}, errors.New("the store is gone"), "the store is gone", Broken},
		"leaving": {Answer{}, ErrWithdrawn, `{"uid":"u-1","allowed":true}`, Withdrawn},
	} {
		var got ReviewRequest
		var report Report
		a := admission("a.b.c", true)
		s := serve(t, Table{Admissions: []Admission{a}}, func(_ context.Context, q ReviewRequest) (Answer, error) {
			got = q
			return c.answer, c.err
		}, 1, func(r Report) { report = r })
		code, answer := s.post(t, a.path()+"?timeout=5s", asked)
		if report.Result != c.result || report.Hook != "hooks/x.sh" || report.Took <= 0 {
			t.Errorf("%s: report %+v", name, report)
		}
		if got.Type != hook.TypeMutating || string(got.Review) != asked || !got.DryRun || got.UID != "u-1" || got.Binding != "a.b.c" {
			t.Errorf("%s: question %+v", name, got)
		}
		if !strings.HasPrefix(c.want, "{") {
			if code != http.StatusInternalServerError || answer != c.want {
				t.Errorf("%s: %d %s", name, code, answer)
			}
			continue
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(answer), &review); err != nil || code != http.StatusOK || review.APIVersion != "admission.k8s.io/v1" {
			t.Fatalf("%s: %d %s: %v", name, code, answer, err)
		}
		if response, err := json.Marshal(review.Response); err != nil || string(response) != c.want {
			t.Errorf("%s: response %s\nwant %s", name, response, c.want)
		}
	}
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	t.Parallel()
	a := admission("a.b.c", false)
	table := Table{Admissions: []Admission{a}, Conversions: conversionsOf([2]string{"v1", "v2"})}
	s := serve(t, table, func(context.Context, ReviewRequest) (Answer, error) { return Answer{}, errors.New("asked") }, 1, nil)
	for _, c := range []struct {
		path, text string
		code       int
	}{
		{a.path(), "{", http.StatusBadRequest},
		{a.path(), `{}`, http.StatusBadRequest},
		{a.path(), strings.Replace(asked, "/v1", "/v2", 1), http.StatusBadRequest},
		{a.path(), strings.Replace(asked, "u-1", "", 1), http.StatusBadRequest},
		{a.path(), strings.Repeat(" ", maxAdmission+1), http.StatusRequestEntityTooLarge},
		{"/things.x.io", asked, http.StatusBadRequest},
		{"/things.x.io", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"x.io/v2","objects":[1]}}`, http.StatusBadRequest},
		{"/hooks/other", asked, http.StatusNotFound},
		{"/", asked, http.StatusNotFound},
	} {
		if code, answer := s.post(t, c.path, c.text); code != c.code {
			t.Errorf("%s %.80s: %d %s, want %d", c.path, c.text, code, answer, c.code)
		}
	}
	response, err := s.client.Get(s.url + "/healthz")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %v, %v", response, err)
	}
	_ = response.Body.Close()
	if response, err = s.client.Get(s.url + a.path()); err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v, %v", response, err)
	}
	_ = response.Body.Close()
}

func TestObjectsOfSeveralVersionsAreEachConvertedByTheirChain(t *testing.T) {
	t.Parallel()
	object := func(version, name string, path ...string) string {
		text := "[" + strings.Join(path, ",") + "]"
		return `{"apiVersion":"x.io/` + version + `","kind":"T","metadata":{"name":"` + name + `"},"path":` + text + `}`
	}
	var requests []string
	ask := func(_ context.Context, q ReviewRequest) (Answer, error) {
		requests = append(requests, fmt.Sprintf("%s %s %d", q.FromVersion, q.ToVersion, len(q.Objects)))
		var a Answer
		for _, o := range q.Objects {
			var fields map[string]any
			if err := json.Unmarshal(o, &fields); err != nil {
				return a, err
			}
			fields["apiVersion"] = q.Version
			path, _ := fields["path"].([]any)
			fields["path"] = append(path, q.ToVersion)
			changed, err := json.Marshal(fields)
			if err != nil {
				return a, err
			}
			a.Converted.Objects = append(a.Converted.Objects, changed)
		}
		return a, nil
	}
	s := serve(t, Table{Conversions: conversionsOf([2]string{"v1", "v2"}, [2]string{"v2", "v3"})}, ask, 1, nil)
	review := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"x.io/v3","objects":[` +
		strings.Join([]string{object("v1", "a"), object("v3", "b"), object("v2", "c"), object("v1", "d")}, ",") + `]}}`
	_, answer := s.post(t, "/things.x.io", review)
	var got struct {
		Response struct {
			Result struct {
				Status string `json:"status"`
			} `json:"result"`
			Objects []struct {
				APIVersion string `json:"apiVersion"`
				Metadata   struct {
					Name string `json:"name"`
				} `json:"metadata"`
				Path []string `json:"path"`
			} `json:"convertedObjects"`
		} `json:"response"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Response.Result.Status != "Success" {
		t.Fatalf("%s: %v", answer, err)
	}
	var converted []string
	for _, o := range got.Response.Objects {
		converted = append(converted, fmt.Sprintf("%s %s %v", o.APIVersion, o.Metadata.Name, o.Path))
	}
	if want := "[x.io/v3 a [v2 v3] x.io/v3 b [] x.io/v3 c [v3] x.io/v3 d [v2 v3]]"; fmt.Sprint(converted) != want {
		t.Errorf("got %v\nwant %s", converted, want)
	}
	if want := "[v1 v2 2 v2 v3 2 v2 v3 1]"; fmt.Sprint(requests) != want {
		t.Errorf("asked %v, want %s", requests, want)
	}
	_, answer = s.post(t, "/things.x.io", strings.Replace(review, `"desiredAPIVersion":"x.io/v3"`, `"desiredAPIVersion":"x.io/v9"`, 1))
	if !strings.Contains(answer, `"status":"Failure","message":"no hooks convert things.x.io from x.io/v1 to x.io/v9"`) {
		t.Errorf("without a chain: %s", answer)
	}
}

// replaced is the error while no hook in the table converts the objects, but the binding of another hook may be added
// to the table soon.
const replaced = "the hooks that convert things.x.io are being replaced; try again"

func TestWithdrawnWebhooksAnswerAsIfThereWereNone(t *testing.T) {
	t.Parallel()
	a := admission("a.b.c", false)
	ask := func(context.Context, ReviewRequest) (Answer, error) { return Answer{}, errors.New("it was asked") }
	s := serve(t, Table{Admissions: []Admission{a}, Conversions: conversionsOf([2]string{"v1", "v2"})}, ask, 1, nil)
	s.Serve(Table{})
	if _, answer := s.post(t, a.path(), asked); !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("admission: %s", answer)
	}
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"x.io/v2",` +
		`"objects":[{"apiVersion":"x.io/v1","kind":"T","big":12345678901234567890}]}}`
	if code, answer := s.post(t, "/things.x.io", review); code != http.StatusInternalServerError || answer != replaced {
		t.Errorf("conversion, while bindings are missing in the table: %d %s", code, answer)
	}
	s.Serve(Table{Complete: true})
	_, answer := s.post(t, "/things.x.io", review)
	if !strings.Contains(answer, `{"apiVersion":"x.io/v2","big":12345678901234567890,"kind":"T"}`) {
		t.Errorf("conversion: %s", answer)
	}
	s.Serve(Table{Admissions: []Admission{a}})
	if code, answer := s.post(t, a.path(), asked); code != http.StatusInternalServerError || answer != "it was asked" {
		t.Errorf("served again: %d %s", code, answer)
	}
}

func TestConversionsGoOnWithoutAWithdrawnOne(t *testing.T) {
	t.Parallel()
	all := conversionsOf([2]string{"v1", "v3"}, [2]string{"v1", "v2"}, [2]string{"v2", "v3"})
	for i, binding := range []string{"short", "first", "second"} {
		all[i].Binding = binding
	}
	withdrawn := map[string]bool{"short": true}
	s := serve(t, Table{Conversions: all}, func(_ context.Context, q ReviewRequest) (Answer, error) {
		if withdrawn[q.Binding] {
			return Answer{}, fmt.Errorf("%w: its module is being deleted", ErrWithdrawn)
		}
		converted, err := relabelAll(q.Objects, q.Version)
		return Answer{Converted: converted}, err
	}, 1, nil)
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"x.io/v3",` +
		`"objects":[{"apiVersion":"x.io/v1","kind":"T"}]}}`
	if _, answer := s.post(t, "/things.x.io", review); !strings.Contains(answer, `[{"apiVersion":"x.io/v3","kind":"T"}]`) {
		t.Errorf("by the longer way: %s", answer)
	}
	withdrawn["second"] = true
	if _, answer := s.post(t, "/things.x.io", review); !strings.Contains(answer, `"message":"no hooks convert things.x.io from x.io/v1 to x.io/v3"`) {
		t.Errorf("without a way: %s", answer)
	}
	// The only binding in the table was removed from the store. Another binding in the store may convert the objects,
	// but it is not in the table yet.
	s.Serve(Table{Conversions: all[:1], Complete: true})
	if code, answer := s.post(t, "/things.x.io", review); code != http.StatusInternalServerError || answer != replaced {
		t.Errorf("without any conversion: %d %s", code, answer)
	}
}

// While a conversion moves to another hook, both hooks can have a binding for it, and only one of the hooks exists. If
// no other hook converts the objects, the error names the hook that is gone.
func TestConversionsGoOnWithoutAHookThatIsGone(t *testing.T) {
	t.Parallel()
	all := conversionsOf([2]string{"v1", "v2"}, [2]string{"v1", "v2"})
	all[0].Binding, all[1].Binding = "first", "second"
	gone := map[string]bool{"first": true}
	s := serve(t, Table{Conversions: all, Complete: true}, func(_ context.Context, q ReviewRequest) (Answer, error) {
		if gone[q.Binding] {
			return Answer{}, fmt.Errorf("hook %s %w", q.Binding, hook.ErrGone)
		}
		converted, err := relabelAll(q.Objects, q.Version)
		return Answer{Converted: converted}, err
	}, 1, nil)
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"x.io/v2",` +
		`"objects":[{"apiVersion":"x.io/v1","kind":"T"}]}}`
	if _, answer := s.post(t, "/things.x.io", review); !strings.Contains(answer, `[{"apiVersion":"x.io/v2","kind":"T"}]`) {
		t.Errorf("by the second hook: %s", answer)
	}
	gone["second"] = true
	if code, answer := s.post(t, "/things.x.io", review); code != http.StatusInternalServerError || answer != "hook second is not there any more" {
		t.Errorf("without a hook: %d %s", code, answer)
	}
}

// A hook that is gone is not called again for the next group of objects. If no other hook converts this group, the
// error names the hook that is gone: it is not known whether the objects can be converted.
func TestAHookThatIsGoneIsNamedForLaterGroupsOfObjects(t *testing.T) {
	t.Parallel()
	all := conversionsOf([2]string{"v1", "v3"}, [2]string{"v1", "v3"})
	all[0].Binding, all[1].Binding = "first", "second"
	all[0].Config.Conversions = append(all[0].Config.Conversions, hook.Conversion{FromVersion: "v2", ToVersion: "v3"})
	reports := make(chan Report, 1)
	s := serve(t, Table{Conversions: all, Complete: true}, func(_ context.Context, q ReviewRequest) (Answer, error) {
		if q.Binding == "first" {
			return Answer{}, fmt.Errorf("hook %s %w", q.Binding, hook.ErrGone)
		}
		converted, err := relabelAll(q.Objects, q.Version)
		return Answer{Converted: converted}, err
	}, 1, func(r Report) { reports <- r })
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"x.io/v3",` +
		`"objects":[{"apiVersion":"x.io/v1","kind":"T"},{"apiVersion":"x.io/v2","kind":"T"}]}}`
	code, answer := s.post(t, "/things.x.io", review)
	if code != http.StatusInternalServerError || answer != "hook first is not there any more" {
		t.Errorf("got %d %s", code, answer)
	}
	if r := <-reports; r.Result != Broken {
		t.Errorf("the result is %s", r.Result)
	}
}

func TestQuestionsWaitForAPlaceAsLongAsTheAPIServerDoes(t *testing.T) {
	t.Parallel()
	a := admission("a.b.c", false)
	a.Config.TimeoutSeconds = 600
	var running, most atomic.Int32
	entered, release := make(chan struct{}, 10), make(chan struct{})
	s := serve(t, Table{Admissions: []Admission{a}}, func(ctx context.Context, _ ReviewRequest) (Answer, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		entered <- struct{}{}
		select {
		case <-release:
			return Answer{Verdict: hook.Verdict{Allowed: true}}, nil
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}, 2, nil)
	answers := make(chan string, 4)
	for range 2 {
		go func() {
			_, answer := s.post(t, a.path()+"?timeout=10m", asked)
			answers <- answer
		}()
		<-entered
	}
	if code, answer := s.post(t, a.path()+"?timeout=300ms", asked); code != http.StatusInternalServerError || !strings.Contains(answer, "was not called: 2 other hooks ran until the timeout") {
		t.Errorf("a third one: %d %s", code, answer)
	}
	close(release)
	for range 2 {
		if answer := <-answers; !strings.Contains(answer, `"allowed":true`) {
			t.Errorf("one of the two: %s", answer)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d ran at once", most.Load())
	}
}

func TestHookIsNotWaitedForWhenWhoAskedHasGone(t *testing.T) {
	t.Parallel()
	a := admission("a.b.c", false)
	entered, ended, reports := make(chan struct{}), make(chan struct{}), make(chan Report, 1)
	s := serve(t, Table{Admissions: []Admission{a}}, func(ctx context.Context, _ ReviewRequest) (Answer, error) {
		close(entered)
		<-ctx.Done()
		close(ended)
		return Answer{}, ctx.Err()
	}, 1, func(r Report) { reports <- r })
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+a.path(), strings.NewReader(asked))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-entered
		leave()
	}()
	if response, err := s.client.Do(r); err == nil {
		t.Errorf("answered with %s: %v", response.Status, response.Body.Close())
	}
	await(t, ended)
	if report := <-reports; report.Result != TimedOut {
		t.Errorf("report %+v", report)
	}
}

func TestStopLetsReviewsUnderWayBeAnswered(t *testing.T) {
	t.Parallel()
	a := admission("a.b.c", false)
	entered, release := make(chan struct{}), make(chan struct{})
	s := serve(t, Table{Admissions: []Admission{a}}, func(context.Context, ReviewRequest) (Answer, error) {
		close(entered)
		<-release
		return Answer{Verdict: hook.Verdict{Allowed: true}}, nil
	}, 1, nil)
	answers, stopped := make(chan string, 1), make(chan struct{})
	go func() {
		_, answer := s.post(t, a.path(), asked)
		answers <- answer
	}()
	<-entered
	go func() {
		s.Stop(t.Context())
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Fatal("it stopped with a review under way")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if answer := <-answers; !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("answered %s", answer)
	}
	await(t, stopped)
	if response, err := s.client.Get(s.url + "/healthz"); err == nil {
		t.Errorf("it still listens: %v", response.Body.Close())
	}
}

// FuzzReview checks that the server answers every posted text with a review, or with an error
// status and a reason.
func FuzzReview(f *testing.F) {
	f.Add([]byte(asked), true)
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"x.io/v2","objects":[{"apiVersion":"x.io/v1"},{"apiVersion":"x.io/v2"}]}}`), false)
	a := admission("a.b.c", true)
	s := NewServer(Options{AtOnce: 1, Clock: time.Now, Ask: func(_ context.Context, q ReviewRequest) (Answer, error) {
		return Answer{Verdict: hook.Verdict{Allowed: true}, Converted: hook.Converted{Objects: q.Objects}}, nil
	}})
	s.Serve(Table{Admissions: []Admission{a}, Conversions: conversionsOf([2]string{"v1", "v2"})})
	f.Fuzz(func(t *testing.T, text []byte, admit bool) {
		path := "/things.x.io"
		if admit {
			path = a.path()
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x"+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		w := &recorder{header: http.Header{}, code: http.StatusOK}
		s.ServeHTTP(w, r)
		if w.code == http.StatusOK && !json.Valid(w.body.Bytes()) {
			t.Errorf("%q is answered with %q", text, w.body.Bytes())
		}
		if w.code != http.StatusOK && w.body.Len() == 0 {
			t.Errorf("%q is answered with %d and no word", text, w.code)
		}
	})
}

type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header            { return r.header }
func (r *recorder) WriteHeader(code int)           { r.code = code }
func (r *recorder) Write(text []byte) (int, error) { return r.body.Write(text) }
