package source

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"addon-operator/internal/api"
)

// The type recorded has one line for each request that a test server received, in the order of the requests.
type recorded struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorded) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// signedFor returns the region for which a request is signed; it is empty without a signature.
func signedFor(r *http.Request) string {
	if parts := strings.Split(r.Header.Get("Authorization"), "/"); len(parts) > 2 {
		return parts[2]
	}
	return ""
}

func TestARequestIsRepeatedOnceForTheRegionThatTheServerReports(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   int
		reported func(signedFor string) string
		want     []string // regions of the requests
		err      string
	}{
		"forbidden, in another region":      {http.StatusForbidden, func(string) string { return "eu-west-1" }, []string{"us-east-1", "eu-west-1"}, "bad response code: 403"},
		"bad request, in another region":    {http.StatusBadRequest, func(string) string { return "eu-west-1" }, []string{"us-east-1", "eu-west-1"}, "bad response code: 400"},
		"moved, to another region":          {http.StatusMovedPermanently, func(string) string { return "eu-west-1" }, []string{"us-east-1", "eu-west-1"}, "bad response code: 301"},
		"another region in each response":   {http.StatusForbidden, func(region string) string { return region + "x" }, []string{"us-east-1", "us-east-1x"}, "bad response code: 403"},
		"forbidden, in this region":         {http.StatusForbidden, func(region string) string { return region }, []string{"us-east-1"}, "bad response code: 403"},
		"forbidden, in no region":           {http.StatusForbidden, func(string) string { return "" }, []string{"us-east-1"}, "bad response code: 403"},
		"missing, in another region":        {http.StatusNotFound, func(string) string { return "eu-west-1" }, []string{"us-east-1"}, "bad response code: 404"},
		"server error, in another region":   {http.StatusInternalServerError, func(string) string { return "eu-west-1" }, []string{"us-east-1"}, "bad response code: 500"},
		"found, although in another region": {http.StatusOK, func(string) string { return "eu-west-1" }, []string{"us-east-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests recorded
			server := answering(t, func(w http.ResponseWriter, r *http.Request) {
				requests.add("%s", signedFor(r))
				w.Header().Set("X-Amz-Bucket-Region", test.reported(signedFor(r)))
				w.WriteHeader(test.status)
			})
			r := open(t, newFetcher(t, Options{}, server), "s3::"+server.URL+"/bucket//index.yaml?aws_access_key_id=AKIA1&aws_access_key_secret=K3y", nil)
			_, err := r.Index(t.Context(), Validators{})
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.HasSuffix(err.Error(), test.err)) {
				t.Errorf("got %v, want %s", err, test.err)
			}
			if !slices.Equal(requests.lines, test.want) {
				t.Errorf("requests were signed for %q, want %q", requests.lines, test.want)
			}
		})
	}
}

func TestTheReportedRegionIsUsedForTheNextRequests(t *testing.T) {
	t.Parallel()
	var requests recorded
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		requests.add("%s", signedFor(r))
		w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
		if signedFor(r) != "eu-west-1" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	r := open(t, newFetcher(t, Options{}, server), "s3::"+server.URL+"/bucket//index.yaml?aws_access_key_id=AKIA1&aws_access_key_secret=K3y", nil)
	for range 2 {
		if _, err := r.Index(t.Context(), Validators{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"us-east-1", "eu-west-1", "eu-west-1"}; !slices.Equal(requests.lines, want) {
		t.Errorf("requests were signed for %q, want %q", requests.lines, want)
	}
}

func TestRequestsWithoutCredentialsAreAnonymous(t *testing.T) {
	t.Parallel()
	var requests recorded
	server := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		requests.add("%s %s %q", r.Method, r.URL, r.Header.Get("Authorization")+r.Header.Get("X-Amz-Date"))
	})
	if _, err := open(t, newFetcher(t, Options{}, server), "s3::"+server.URL+"/bucket/a b//x/index+1.yaml", nil).Index(t.Context(), Validators{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`GET /bucket/a%20b/x/index%2B1.yaml ""`}; !slices.Equal(requests.lines, want) {
		t.Errorf("got %q, want %q", requests.lines, want)
	}
}

// pageOf returns a page of a listing. token is the token of the next page; it is empty on the last page.
func pageOf(t *testing.T, token string, keys ...string) []byte {
	t.Helper()
	type page struct {
		XMLName               xml.Name   `xml:"ListBucketResult"`
		IsTruncated           bool       `xml:"IsTruncated"`
		NextContinuationToken string     `xml:"NextContinuationToken"`
		Contents              []s3Object `xml:"Contents"`
	}
	p := page{IsTruncated: token != "", NextContinuationToken: token}
	for _, key := range keys {
		p.Contents = append(p.Contents, s3Object{Key: key, ETag: "1"})
	}
	data, err := xml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAllPagesOfADirectoryAreRead(t *testing.T) {
	t.Parallel()
	var requests recorded
	pages := map[string][]byte{
		"":      pageOf(t, "a+b/c", "dir/a-1/z", "dir/a-1/chart/"),
		"a+b/c": pageOf(t, "last", "dir/a-1/chart/y"),
		"last":  pageOf(t, "", "dir/a-1/", "dir/a-1/x"),
	}
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/bucket" {
			requests.add("%s", r.URL.Path)
			fmt.Fprint(w, "content of "+r.URL.Path)
			return
		}
		q := r.URL.Query()
		requests.add("list %s %s %s", q.Get("list-type"), q.Get("prefix"), q.Get("continuation-token"))
		_, _ = w.Write(pages[q.Get("continuation-token")])
	})
	r := open(t, newFetcher(t, Options{}, server), "s3::"+server.URL+"/bucket//dir/index.yaml", nil)
	if got := readAddon(t, r, "a", "1", "chart/y"); got != "content of /bucket/dir/a-1/chart/y" {
		t.Errorf("got %q", got)
	}
	want := []string{
		"list 2 dir/a-1/ ", "list 2 dir/a-1/ a+b/c", "list 2 dir/a-1/ last",
		"/bucket/dir/a-1/chart/y", "/bucket/dir/a-1/x", "/bucket/dir/a-1/z", // sorted by key, without directories
	}
	if !slices.Equal(requests.lines, want) {
		t.Errorf("got  %q\nwant %q", requests.lines, want)
	}
}

func TestTheRevisionOfADirectoryChangesWithEachOfItsObjects(t *testing.T) {
	t.Parallel()
	objects := []s3Object{
		{Key: "a", ETag: "1", Size: 1, LastModified: "2026-11-28T09:00:00Z"},
		{Key: "b", ETag: "2", Size: 2, LastModified: "2026-11-28T09:00:00Z"},
	}
	first := revision(objects)
	if again := revision(slices.Clone(objects)); again != first {
		t.Errorf("two revisions of one listing: %s and %s", first, again)
	}
	for name, change := range map[string]func(*s3Object){
		"key":  func(o *s3Object) { o.Key = "c" },
		"ETag": func(o *s3Object) { o.ETag = "3" },
		"size": func(o *s3Object) { o.Size = 3 },
		"time": func(o *s3Object) { o.LastModified = "2026-11-28T09:00:01Z" },
	} {
		changed := slices.Clone(objects)
		change(&changed[1])
		if revision(changed) == first {
			t.Errorf("another %s has the same revision", name)
		}
	}
	if revision(objects[:1]) == first || revision(append(slices.Clone(objects), s3Object{Key: "c"})) == first {
		t.Error("another number of objects has the same revision")
	}
}

func TestAnErrorOfABucketNamesItsCodeOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, want string }{
		"code":                {"<Error><Code>NoSuchKey</Code><Message>S3cr3t</Message></Error>", "bad response code: 404 (NoSuchKey)"},
		"no code":             {"<Error><Message>S3cr3t</Message></Error>", "bad response code: 404"},
		"code with a blank":   {"<Error><Code>S3cr3t x</Code></Error>", "bad response code: 404"},
		"code of 65 letters":  {"<Error><Code>" + strings.Repeat("x", 65) + "</Code></Error>", "bad response code: 404"},
		"HTML":                {"<p>S3cr3t<br></p>", "bad response code: 404"},
		"nothing":             {"", "bad response code: 404"},
		"code after 16 KiB":   {"<Error><A>" + strings.Repeat("x", 16<<10) + "</A><Code>NoSuchKey</Code></Error>", "bad response code: 404"},
		"code of 64 letters":  {"<Error><Code>" + strings.Repeat("x", 64) + "</Code></Error>", "bad response code: 404 (" + strings.Repeat("x", 64) + ")"},
		"other code in a tag": {"<Error><Detail><Code>Other</Code></Detail><Code>NoSuchKey</Code></Error>", "bad response code: 404 (NoSuchKey)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, test.body)
			})
			_, err := open(t, newFetcher(t, Options{}, server), "s3::"+server.URL+"/bucket//dir/index.yaml", nil).Addon(t.Context(), "a", "1", Validators{})
			checkFailure(t, err, api.FetchingError, test.want)
			if err != nil && !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
