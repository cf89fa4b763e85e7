package addons

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/internal/catalog/source"
	"addon-operator/internal/retry"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// A repository is an HTTP server that serves files with ETags and records its responses.
type repository struct {
	*httptest.Server
	files map[string][]byte

	mu        sync.Mutex
	responses []string // guarded by mu
}

func serve(t *testing.T, files map[string][]byte) *repository {
	t.Helper()
	r := &repository{files: files}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		recorder := httptest.NewRecorder()
		name := path.Base(req.URL.Path)
		if file, ok := r.files[name]; ok {
			recorder.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(file))))
			http.ServeContent(recorder, req, name, time.Time{}, bytes.NewReader(file))
		} else {
			http.NotFound(recorder, req)
		}
		r.mu.Lock()
		r.responses = append(r.responses, fmt.Sprintf("%s %d", name, recorder.Code))
		r.mu.Unlock()
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	}))
	t.Cleanup(r.Close)
	return r
}

// responded returns the sorted list of responses since its last call.
func (r *repository) responded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.responses
	r.responses = nil
	slices.Sort(all)
	return all
}

// archive returns an addon, packed in the format in which a repository serves it.
func archive(t *testing.T, id, name string) []byte {
	t.Helper()
	files := fstest.MapFS{
		"meta.yaml":                     {Data: fmt.Appendf(nil, "{id: %q, name: %s, version: 1.0.0, description: d, displayName: D}", id, name)},
		"chart/" + name + "/Chart.yaml": {Data: []byte("{apiVersion: v2, name: " + name + ", version: 1.0.0}")},
		"plans/default/meta.yaml":       {Data: []byte("{id: " + id + "-p, name: default, description: d, displayName: D}")},
	}
	packed, err := catalog.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func newRuntime(t *testing.T) *Runtime {
	t.Helper()
	fetcher, err := source.New(source.Options{Develop: true, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fetcher.Close)
	r := &Runtime{DB: storetest.Memory(t), Fetcher: fetcher, Retry: retry.Delays{Resync: time.Hour, First: time.Second, Longest: time.Minute}}
	r.Implementation()
	return r
}

// process runs a whole round of a cluster-wide configuration, except the step that writes its
// status, and returns the results.
func process(t *testing.T, r *Runtime, name string, urls ...string) (store.Configuration, []store.RepositoryResult) {
	t.Helper()
	id, known := api.Identity{Name: name}, begin(t, r, name)
	fetching := newRound(r, id, known)
	var repositories []api.Repository
	for _, url := range urls {
		repositories = append(repositories, api.Repository{URL: url})
	}
	if err := fetching.readEarlier(known, repositories); err != nil {
		t.Fatal(err)
	}
	for i, of := range repositories {
		if err := fetching.fetch(t.Context(), i, of); err != nil {
			t.Fatal(err)
		}
	}
	check(t, r, name)
	register(t, r, name)
	if err := registry.Sweep(t.Context(), r.DB); err != nil {
		t.Fatal(err)
	}
	known, results, err := r.results(id)
	if err != nil {
		t.Fatal(err)
	}
	return known, results
}

// TestAHangingServerCostsAConfigurationNoMoreThanItsLimit sets the clock of the store to shortly before the limit when
// the server sends the first index, so that a slow machine also fetches this index in time.
func TestAHangingServerCostsAConfigurationNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	const limit, left = 30 * time.Minute, 200 * time.Millisecond // left is much less than the timeout of each request, 30 s
	began := time.Now()
	var ahead atomic.Int64
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/many/index.yaml") {
			ahead.Store(int64(limit - left - time.Since(began)))
			_, _ = w.Write([]byte("entries: {a: [{version: 1.0.0}], b: [{version: 1.0.0}], c: [{version: 1.0.0}], d: [{version: 1.0.0}], e: [{version: 1.0.0}]}"))
			return
		}
		<-hangs
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hangs) })
	r := newRuntime(t)
	r.DB, r.FetchWithin = db, limit
	_, results := process(t, r, "c", server.URL+"/many/index.yaml", server.URL+"/index.yaml")
	const want = "fetching all repositories of the configuration takes longer than the limit of 30m0s"
	if len(results[0].Addons) != 5 {
		t.Fatalf("got %+v", results[0])
	}
	for _, addon := range results[0].Addons {
		if addon.Reason != string(api.FetchingError) || !strings.Contains(addon.Message, want) {
			t.Errorf("addon %s: %s, %s", addon.Entry, addon.Reason, addon.Message)
		}
	}
	if got := results[1]; got.Reason != string(api.FetchingIndexError) || !strings.Contains(got.Message, want) {
		t.Errorf("got %s, %s", got.Reason, got.Message)
	}
}

func TestUnchangedAddonsOfAFailedConfigurationAreNeitherDownloadedNorParsedAgain(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	index := "apiVersion: v1\nentries:\n  a: [{version: 1.0.0}, {version: nonsense}]\n  b: [{version: 1.0.0}]\n  c: [{version: 1.0.0}]\n"
	repository := serve(t, map[string][]byte{
		"index.yaml": []byte(index), "a-1.0.0.tgz": archive(t, "A", "a"), "b-1.0.0.tgz": archive(t, "", "b"), "c-1.0.0.tgz": []byte("no archive"),
	})
	known, first := process(t, r, "c", repository.URL+"/index.yaml")
	if known.Phase != store.PhaseFailed {
		t.Fatalf("the configuration is %s", known.Phase)
	}
	if diff := cmp.Diff([]string{"a-1.0.0.tgz 200", "b-1.0.0.tgz 200", "c-1.0.0.tgz 200", "index.yaml 200"}, repository.responded()); diff != "" {
		t.Fatalf("the first round (-want +got):\n%s", diff)
	}
	for range 2 {
		_, again := process(t, r, "c", repository.URL+"/index.yaml")
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("the next round has other results (-first +next):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a-1.0.0.tgz 304", "b-1.0.0.tgz 304", "c-1.0.0.tgz 304", "index.yaml 304"}, repository.responded()); diff != "" {
			t.Errorf("the next round (-want +got):\n%s", diff)
		}
	}
	rounds := 0
	if err := r.DB.View(func(tx *store.Tx) error {
		for range tx.Range(store.At(store.Rounds)) {
			rounds++
		}
		return nil
	}); err != nil || rounds != 1 {
		t.Errorf("results of %d rounds are stored: %v", rounds, err)
	}
}

func TestRepositoryWhoseIndexCouldNotBeFetchedIsNotDownloadedAgain(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	index := []byte("entries:\n  a: [{version: 1.0.0}, {version: nonsense}]\n  b: [{version: 1.0.0}]\n")
	repository := serve(t, map[string][]byte{"index.yaml": index, "a-1.0.0.tgz": archive(t, "A", "a"), "b-1.0.0.tgz": archive(t, "B", "b")})
	_, first := process(t, r, "c", repository.URL+"/index.yaml")
	repository.responded()
	for _, bad := range [][]byte{nil, []byte("entries: []"), nil} { // addons stay known, even after two rounds without an index
		if repository.files["index.yaml"] = bad; bad == nil {
			delete(repository.files, "index.yaml")
		}
		known, results := process(t, r, "c", repository.URL+"/index.yaml")
		if known.Phase != store.PhaseFailed || api.Reason(results[0].Reason) != api.FetchingIndexError || len(results[0].Addons) != 0 {
			t.Fatalf("it is %s: %+v", known.Phase, results)
		}
	}
	repository.responded()
	repository.files["index.yaml"] = index
	_, again := process(t, r, "c", repository.URL+"/index.yaml")
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("other results than before (-first +next):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a-1.0.0.tgz 304", "b-1.0.0.tgz 304", "index.yaml 304"}, repository.responded()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAddonsStayKnownWhenTheURLOfTheirRepositoryChanges replaces the URL of a repository by URLs that cannot be read. The
// modules that are made from its addons must not be downgraded because of that.
func TestAddonsStayKnownWhenTheURLOfTheirRepositoryChanges(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	index := []byte("entries: {a: [{version: 1.0.0}]}")
	repository := serve(t, map[string][]byte{"index.yaml": index, "b/index.yaml": index, "a-1.0.0.tgz": archive(t, "A", "a")})
	same := repository.URL + "/b/index.yaml"
	process(t, r, "c", repository.URL+"/index.yaml", same)
	for _, url := range []string{repository.URL + "/absent.yaml", repository.URL + "/absent.yaml", ""} {
		_, results := process(t, r, "c", url, same)
		if diff := cmp.Diff([]store.AddonResult{{Entry: "a", EntryVersion: "1.0.0"}}, results[0].Known); diff != "" {
			t.Errorf("the addons that are known for %q (-want +got):\n%s", url, diff)
		}
		if results[1].Known != nil {
			t.Errorf("the other repository knows %+v", results[1].Known)
		}
	}
}

func TestTheEndOfEachFetchIsObservedWithItsReason(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	var observed []string
	r.Fetches = func(scope registry.Scope) func(api.Reason) {
		observed = append(observed, fmt.Sprintf("fetch %q", scope))
		return func(reason api.Reason) { observed = append(observed, fmt.Sprintf("end %q", reason)) }
	}
	repository := serve(t, map[string][]byte{"index.yaml": []byte("entries: {absent: [{version: 1.0.0}]}")})
	process(t, r, "c", repository.URL+"/index.yaml", repository.URL+"/absent.yaml", "")
	if diff := cmp.Diff([]string{
		`fetch ""`, `end ""`, `fetch ""`, `end "FetchingIndexError"`, `fetch ""`, `end "EmptyURLError"`,
	}, observed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPermanentlyWrongURLIsNotRetriedBeforeTheResync(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	for url, permanent := range map[string]bool{
		"foo://h/index.yaml": true, "git::https://h/repository.git?ref=main": true, "http://127.0.0.1:1/index.yaml": false,
	} {
		known, results := process(t, r, "c", url)
		delay := known.Retry.Sub(known.Processed)
		if results[0].Permanent != permanent || (known.Attempts == 0) != permanent || (delay >= r.Retry.Resync) != permanent {
			t.Errorf("%s: permanent %t, attempts %d, retry after %s: %s", url, results[0].Permanent, known.Attempts, delay, results[0].Message)
		}
		if !strings.Contains(results[0].Message, ":") {
			t.Errorf("%s: message %q", url, results[0].Message)
		}
	}
}

func TestTheSameOneOfTwoAddonsWithOneIDIsMarkedInEachRound(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	repository := serve(t, map[string][]byte{
		"index.yaml":     []byte("entries:\n  zeta: [{version: 1.0.0}]\n  alpha: [{version: 1.0.0}]\n"),
		"zeta-1.0.0.tgz": archive(t, "X", "zeta"), "alpha-1.0.0.tgz": archive(t, "X", "alpha"),
	})
	for i := range 10 {
		known, results := process(t, r, "c", repository.URL+"/index.yaml")
		got := map[string]string{}
		for _, addon := range results[0].Addons {
			got[addon.Name] = addon.Reason
		}
		want := map[string]string{"alpha": "", "zeta": string(api.ConflictInSpecifiedRepositories)}
		if diff := cmp.Diff(want, got); diff != "" || known.Phase != store.PhaseFailed || !known.Registered.IsZero() {
			t.Fatalf("round %d: %s, registered %s, reasons (-want +got):\n%s", i, known.Phase, known.Registered, diff)
		}
	}
}

// begin begins a round of a cluster-wide configuration.
func begin(t *testing.T, r *Runtime, name string) store.Configuration {
	t.Helper()
	if err := r.DB.Update(func(tx *store.Tx) error {
		_, _, err := registry.Begin(tx, registry.Owner{Name: name, UID: name, Generation: 1})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	known, err := r.record(api.Identity{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func TestAnIndexWhoseResultCannotBeStoredIsAProblemOfItsRepository(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	var index strings.Builder
	index.WriteString("entries:\n")
	for i := range catalog.MaxIndexEntries {
		fmt.Fprintf(&index, "  \"%s%d\": [{version: x}]\n", strings.Repeat("&", 170), i) // JSON needs six bytes for &
	}
	if index.Len() > catalog.MaxIndexSize {
		t.Fatalf("the index has %d bytes", index.Len())
	}
	repository := serve(t, map[string][]byte{"index.yaml": []byte(index.String())})
	known, results := process(t, r, "c", repository.URL+"/index.yaml")
	if known.Phase != store.PhaseFailed || len(results) != 1 || !strings.Contains(results[0].Message, "more than the limit of 4 MiB") {
		t.Errorf("it is %s with %d results: %.300s", known.Phase, len(results), results[0].Message)
	}
}

// TestRepositoriesAndEntriesBeyondTheLimitsAreNotFetched gives a configuration more repositories than the limit, some
// of them with large indexes. Each repository within the limit must have a result, and the repositories whose entries
// exceed the limit of the configuration must fail. One more result must name the number of repositories.
func TestRepositoriesAndEntriesBeyondTheLimitsAreNotFetched(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	var index strings.Builder
	index.WriteString("entries:\n")
	for i := range catalog.MaxIndexEntries {
		fmt.Fprintf(&index, "  a%d: [{version: %s}]\n", i, strings.Repeat("x", 60))
	}
	repository := serve(t, map[string][]byte{"large.yaml": []byte(index.String()), "small.yaml": []byte("entries: {}")})
	repositories := slices.Repeat([]api.Repository{{URL: repository.URL + "/small.yaml"}}, registry.MaxRepositories+500)
	const large = 5
	for i := range large {
		repositories[i].URL = repository.URL + "/large.yaml"
	}
	known := begin(t, r, "c")
	if _, err := (&fetchStep{r}).fetchAll(t.Context(), api.Identity{Name: "c"}, known, repositories); err != nil {
		t.Fatal(err)
	}
	_, results, err := r.results(api.Identity{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	entries, tooMany, size := 0, 0, 0
	for _, result := range results {
		entries += len(result.Addons)
		if strings.Contains(result.Message, "too many addons") {
			tooMany++
		}
		text, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if entries != registry.MaxEntries || tooMany != large-registry.MaxEntries/catalog.MaxIndexEntries || size > 9<<20 {
		t.Errorf("%d entries and %d MiB are stored, and %d repositories have too many addons", entries, size>>20, tooMany)
	}
	last := results[len(results)-1].Message
	if len(results) != registry.MaxRepositories+1 || !strings.Contains(last, "the configuration has 2500 repositories, more than the limit of 2000") {
		t.Errorf("there are %d results, the last one with the message %q", len(results), last)
	}
}

// TestAnIDOfAnyLengthIsAProblemOfItsAddon loads addons whose IDs together are larger than a result may be.
func TestAnIDOfAnyLengthIsAProblemOfItsAddon(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	long := func(id string) string { return id + strings.Repeat("ä", 400<<10) }
	repository := serve(t, map[string][]byte{
		"index.yaml":  []byte("entries: {a: [{version: 1.0.0}], b: [{version: 1.0.0}], c: [{version: 1.0.0}], d: [{version: 1.0.0}], e: [{version: 1.0.0}], f: [{version: 1.0.0}]}"),
		"a-1.0.0.tgz": archive(t, long("A"), "a"), "b-1.0.0.tgz": archive(t, long("B"), "b"), "c-1.0.0.tgz": archive(t, long("C"), "c"),
		"d-1.0.0.tgz": archive(t, long("D"), "d"), "e-1.0.0.tgz": archive(t, long("E"), "e"), "f-1.0.0.tgz": archive(t, long("F"), "f"),
	})
	known, results := process(t, r, "c", repository.URL+"/index.yaml")
	for _, addon := range results[0].Addons {
		if api.Reason(addon.Reason) != api.RegisteringError || !strings.Contains(addon.Message, "the ID of the addon has more than the limit of 1024 bytes") {
			t.Errorf("%s: %s: %.200s", addon.Entry, addon.Reason, addon.Message)
		}
	}
	if known.Phase != store.PhaseFailed || len(results[0].Addons) != 6 {
		t.Errorf("it is %s with %d addons: %.300s", known.Phase, len(results[0].Addons), results[0].Message)
	}
}

// TestUnchangedAddonsOfAnotherFormatAreParsedAgain stores a failed round in the form of an earlier version of the
// operator. The name of the addon's content begins with an earlier format number, and the content contains an error of
// that version.
func TestUnchangedAddonsOfAnotherFormatAreParsedAgain(t *testing.T) {
	t.Parallel()
	for name, absent := range map[string]bool{"at once": false, "after a round without an index": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRuntime(t)
			index := []byte("entries: {a: [{version: 1.0.0}]}")
			repository := serve(t, map[string][]byte{"index.yaml": index, "a-1.0.0.tgz": archive(t, "A", "a")})
			url := repository.URL + "/index.yaml"
			_, results := process(t, r, "c", url)
			if err := r.DB.Update(func(tx *store.Tx) error {
				_, err := registry.Withdraw(tx, registry.Cluster, "c")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			known, addon := begin(t, r, "c"), &results[0].Addons[0]
			addon.Content = "1-" + validators(addon.Source).Digest
			parsed := registry.Parsed{Name: addon.Content, Err: errors.New("a mistake of an earlier version")}
			if err := registry.Put(t.Context(), r.DB, store.RoundHolder(known.Round), parsed); err != nil {
				t.Fatal(err)
			}
			refuse(t, r.DB, "c", results...)
			check(t, r, "c")
			if _, phase, reason := register(t, r, "c"); phase != store.PhaseFailed {
				t.Fatalf("with the error of the earlier version, it is %s: %s", phase, reason)
			}
			if absent {
				delete(repository.files, "index.yaml")
				process(t, r, "c", url)
				repository.files["index.yaml"] = index
			}
			repository.responded()
			known, results = process(t, r, "c", url)
			if known.Phase != store.PhaseReady {
				t.Errorf("it is %s: %s", known.Phase, results[0].Addons[0].Message)
			}
			if diff := cmp.Diff([]string{"a-1.0.0.tgz 200", "index.yaml 304"}, repository.responded()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
