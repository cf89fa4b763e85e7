package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
)

func TestPagesAreReadItemByItem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		items []string
		page  metav1.ListMeta
		fails bool
	}{
		{`{"kind":"List","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1},{"b":[{}]}]}`, []string{`{"a":1}`, `{"b":[{}]}`}, metav1.ListMeta{ResourceVersion: "7", Continue: "x"}, false},
		{`{"items":[{"a":1}],"metadata":{"resourceVersion":"7"}}`, []string{`{"a":1}`}, metav1.ListMeta{ResourceVersion: "7"}, false},
		{`{"metadata":{},"items":null}`, nil, metav1.ListMeta{}, false},
		{`{"metadata":{},"items":[]}`, nil, metav1.ListMeta{}, false},
		{`{}`, nil, metav1.ListMeta{}, false},
		{`{"items":{}}`, nil, metav1.ListMeta{}, true},
		{`{"items":[{"a":1},`, []string{`{"a":1}`}, metav1.ListMeta{}, true},
		{`[]`, nil, metav1.ListMeta{}, true},
		{``, nil, metav1.ListMeta{}, true},
	} {
		var items []string
		page, err := readPage(iotest.OneByteReader(strings.NewReader(test.text)), func(item json.RawMessage) error {
			items = append(items, string(item))
			return nil
		})
		if diff := cmp.Diff(test.items, items); diff != "" || (err != nil) != test.fails {
			t.Errorf("%s: %s%v", test.text, diff, err)
		}
		if !test.fails && page != test.page {
			t.Errorf("%s: page %+v", test.text, page)
		}
	}
	stop := errors.New("stop")
	_, err := readPage(strings.NewReader(`{"items":[{}]}`), func(json.RawMessage) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func FuzzReadPage(f *testing.F) {
	f.Add(`{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`)
	f.Add(`{"items":null,"x":[[]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := readPage(strings.NewReader(text), func(item json.RawMessage) error {
			if !json.Valid(item) {
				t.Errorf("an item of %q is %q", text, item)
			}
			_, err := readDocument(item, Source{Version: "v1", Resource: "pods", Kind: "Pod"})
			return err
		})
		if err == nil && !strings.HasPrefix(strings.TrimSpace(text), "{") {
			t.Errorf("%q is read as a list", text)
		}
	})
}

func TestAListedObjectIsTheSameTextAsAWatchedOne(t *testing.T) {
	t.Parallel()
	source := Source{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment"}
	const watched = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1"}}`
	const listed = `{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1"}}`
	for _, text := range []string{watched, listed} {
		d, err := readDocument(json.RawMessage(text), source)
		if err != nil || string(d.raw) != watched {
			t.Errorf("%s became %s, %v", text, d.raw, err)
		}
		if d.key() != (objectKey{"b", "a"}) {
			t.Errorf("%s is %v", text, d.key())
		}
	}
}

func TestTheNewestFieldManagerIsNamed(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`[]`: "",
		`[{"manager":"kubectl-edit","operation":"Update","time":"2026-11-23T10:00:00Z"}]`:                                                             "kubectl-edit",
		`[{"manager":"flux","operation":"Apply","time":"2026-11-23T10:00:02Z"},{"manager":"kubectl","time":"2026-11-23T10:00:01Z"}]`:                  "flux",
		`[{"manager":"kubectl","time":"2026-11-23T09:59:59Z"},{"manager":"kubelet","time":"2026-11-23T10:00:00Z","subresource":"status"}]`:            "kubelet (status)",
		`[{"manager":"a","time":"2026-11-23T10:00:00Z"},{"manager":"b","time":"2026-11-23T10:00:00Z"},{"manager":"a","time":"2026-11-23T10:00:00Z"}]`: "a or b",
		`[{"manager":"no-time"}]`: "no-time",
	} {
		d, err := readDocument(json.RawMessage(`{"kind":"Pod","metadata":{"name":"a","managedFields":`+fields+`}}`), Source{Resource: "pods", Kind: "Pod"})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.object().Manager; got != want {
			t.Errorf("%s: manager %q, want %q", fields, got, want)
		}
	}
}

func TestRefusalsAreToldFromFailures(t *testing.T) {
	t.Parallel()
	status := func(code int32) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}} }
	refused := map[int32]bool{400: true, 403: true, 404: true, 405: true, 410: true, 413: true, 422: true}
	for _, code := range []int32{400, 401, 403, 404, 405, 408, 409, 410, 413, 422, 429, 500, 502, 503, 504} {
		if err := fmt.Errorf("wrapped: %w", status(code)); IsRefused(err) != refused[code] {
			t.Errorf("%d: refused is %v", code, IsRefused(err))
		}
	}
	if IsRefused(nil) || IsRefused(errors.New("connection refused")) {
		t.Error("an error without a response of the API server is treated as a refusal")
	}
	if conflict := status(http.StatusConflict); !IsRefused(fmt.Errorf("%w: %w", errConflicts, conflict)) {
		t.Error("a conflict at each attempt is not treated as a refusal")
	}
}

func TestVersionsThatCannotBeReadOnFromAreTold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"kind":"Status","code":410,"reason":"Expired","message":"too old"}`: true,
		`{"kind":"Status","code":410,"reason":"Gone"}`:                        true,
		`{"kind":"Status","code":410}`:                                        true,
		`{"kind":"Status","code":500,"reason":"InternalError"}`:               false,
		`{"kind":"Pod"}`: false,
		`7`:              false,
	} {
		if err := statusError(json.RawMessage(text)); isVersionRefused(err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTheServerIsAskedLessAndLessOften(t *testing.T) {
	t.Parallel()
	failure := errors.New("away")
	var r retry
	if d := r.next(nil); d != 0 {
		t.Errorf("after a clean end it waits %v", d)
	}
	for want := 50 * time.Millisecond; want < 30*time.Second; want *= 2 {
		least := min(want, retryLast)
		if d := r.next(failure); d < least || d > least*12/10 {
			t.Errorf("it waits %v, not %v", d, least)
		}
	}
	r.reset()
	if d := r.next(failure); d < retryFirst || d > 2*retryFirst {
		t.Errorf("after a reset it waits %v", d)
	}
	busy := apierrors.NewTooManyRequests("busy", 30)
	if d := r.next(busy); d < 30*time.Second {
		t.Errorf("asked to wait 30 s it waits %v", d)
	}
}

func TestTheNewestVersionIsRequestedWithTheNameOfASingleObject(t *testing.T) {
	t.Parallel()
	client, err := NewClient(&rest.Config{Host: "http://cluster"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		source Source
		want   string // the field selector of the request
	}{
		{Source{}, ""},
		{Source{Names: "a"}, "metadata.name=a"},
		{Source{Names: "a", Labels: "l=x"}, "metadata.name=a"},
		{Source{Names: "a", Labels: "l=x", Fields: "spec.nodeName=n"}, "metadata.name=a,spec.nodeName=n"},
		{Source{Labels: "l=x", Fields: "metadata.name=a"}, "metadata.name=a"},
		{Source{Names: "a,b", Labels: "l=x"}, ""},
		{Source{Fields: "spec.nodeName=n"}, "spec.nodeName=n"},
		{Source{Labels: "l=x", Fields: "spec.nodeName=n"}, ""},
		{Source{Labels: "l=x", Fields: "metadata.name!=a"}, ""},
	} {
		test.source.Version, test.source.Resource, test.source.Namespace = "v1", "pods", "ns"
		if got := client.newestRequest(test.source).URL().Query().Get("fieldSelector"); got != test.want {
			t.Errorf("%s: the field selector is %q, want %q", test.source, got, test.want)
		}
	}
}

func TestVersionsAreOrderedAsTheServerCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64Min(1).Draw(t, "a"), rapid.Uint64Min(1).Draw(t, "b")
		x, y := fmt.Sprint(a), fmt.Sprint(b)
		if After(x, y) != (a > b) {
			t.Errorf("%s after %s: %v", x, y, After(x, y))
		}
		if want := fmt.Sprint(max(a, b)); later(x, y) != want || later(y, x) != want {
			t.Errorf("later of %s and %s: %s, %s", x, y, later(x, y), later(y, x))
		}
		if isReached(x, y) != (a <= b) {
			t.Errorf("%s reached at %s: %v", x, y, isReached(x, y))
		}
	})
	if !After("x", "7") || !After("7", "x") || isReached("x", "7") || later("", "7") != "7" || later("7", "") != "7" {
		t.Error("an invalid or empty version is compared wrongly")
	}
}

func TestKindsAreMatchedByNameBeforeShortName(t *testing.T) {
	t.Parallel()
	lists := byPreference([]*metav1.APIGroup{
		{PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "v1"}, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "v1"}}},
		{
			PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "b/v1"},
			Versions:         []metav1.GroupVersionForDiscovery{{GroupVersion: "b/v2"}, {GroupVersion: "b/v1"}},
		},
	}, []*metav1.APIResourceList{
		{GroupVersion: "b/v2", APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing"}, {Name: "news", Kind: "New"}}},
		{GroupVersion: "b/v1", APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing"}, {Name: "xs", Kind: "PO"}}},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", ShortNames: []string{"po"}, Namespaced: true}}},
	})
	for name, want := range map[string]schema.GroupVersionResource{
		"pod": {Version: "v1", Resource: "pods"}, "thing": {Group: "b", Version: "v1", Resource: "things"},
		"New": {Group: "b", Version: "v2", Resource: "news"}, "po": {Group: "b", Version: "v1", Resource: "xs"},
	} {
		if kind, found := matchKind(lists, name); !found || kind.GroupVersionResource() != want {
			t.Errorf("%s is %v, %v", name, kind, found)
		}
	}
}

// answers is a transport. The function returns the body of the response to a request with this query.
type answers func(query url.Values) (body string)

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: request, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(a(request.URL.Query()))),
	}, nil
}

// TestAnAnswerThatEndsEarlyIsRequestedAgainInPages requests a list whose answer the API server ends, because reading it
// takes too long.
func TestAnAnswerThatEndsEarlyIsRequestedAgainInPages(t *testing.T) {
	t.Parallel()
	const start, object = `{"metadata":{"resourceVersion":"7","continue":%q},"items":[`, `{"metadata":{"name":%q}}`
	for _, notBefore := range []string{anyVersion, "5"} {
		client, err := NewClient(&rest.Config{Transport: answers(func(query url.Values) string {
			switch {
			case query.Get("limit") == "":
				return fmt.Sprintf(start+object+",", "", "a")
			case query.Get("continue") == "":
				return fmt.Sprintf(start+object+"]}", "next", "a")
			default:
				return fmt.Sprintf(start+object+"]}", "", "b")
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		names, version, err := client.ListNames(t.Context(), Source{Version: "v1", Resource: "pods"}, notBefore)
		if err != nil || version != "7" || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("version %s: the list has the version %q and the names %q, error %v", notBefore, version, names, err)
		}
	}
}
