package dryrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// A Session turns the writes of clients into dry runs (dryRun=All) and remembers the object that each write would have
// stored. When a client reads one of these objects, the session returns the remembered object. So each client of the
// session sees the writes of all clients of the session. But lists and watches show only the objects of the API server.
// The zero value is ready to use. A Session is safe for concurrent use.
type Session struct {
	mu      sync.Mutex
	objects map[string]*object // objects that the session has written, by URL path; guarded by mu
	changes []Change           // changes since the last call of Take; guarded by mu
}

// An object is the state of an object that the session has written.
type object struct {
	live map[string]any // the object in the API server; nil if it does not exist there
	now  map[string]any // the object after the writes of the session; nil if it is deleted
	note string         // why the API server could not check a write of the session; "" if there is no such reason
}

// A Change is one write of a client that would change an object.
type Change struct {
	// Before and After are the object before and after the write. Before is nil if the write creates the object, and
	// After is nil if it deletes the object.
	Before, After *unstructured.Unstructured
	// Note is the reason why the API server could not check this write, or an earlier write to the same object, in a
	// dry run. It is empty if there is no such reason. If the session has created the object, the API server does not
	// check the later writes to it, and these writes have no reason of their own.
	Note string
}

// Wrap changes config so that each client that is later created from config is a client of the session. It must be
// called before other wrappers are added to config, so that the other wrappers see the responses of the session.
func (s *Session) Wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{session: s, next: next} })
}

// Take returns the changes since the last call of Take, in the order of the writes. It does not return writes that
// changed nothing.
func (s *Session) Take() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.changes
	s.changes = nil
	return taken
}

// get returns the object at the URL path, as the session remembers it. The result known is false if the session has not
// written the object.
func (s *Session) get(path string) (o object, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.objects[path]; found != nil {
		return *found, true
	}
	return object{}, false
}

// record remembers a write to the object at the URL path. The arguments before and now are the object before and after
// the write. If they differ, record adds a change for [Session.Take]. The argument note is the reason why the API
// server could not check the write. If note is "", record keeps the note of the earlier writes to the object.
func (s *Session) record(path string, before, now map[string]any, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.objects[path]
	if known == nil {
		known = &object{live: before}
		if s.objects == nil {
			s.objects = map[string]*object{}
		}
		s.objects[path] = known
	}
	known.now = now
	if note != "" {
		known.note = note
	}
	if same(before, now) {
		return
	}
	s.changes = append(s.changes, Change{Before: wrapped(before), After: wrapped(now), Note: known.note})
}

func wrapped(o map[string]any) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return (&unstructured.Unstructured{Object: o}).DeepCopy()
}

// transport handles the requests of one client of the session.
type transport struct {
	session *Session
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet:
		return t.get(r)
	case http.MethodPost:
		return t.post(r)
	case http.MethodPut, http.MethodPatch:
		return t.change(r)
	case http.MethodDelete:
		return t.remove(r)
	default:
		return nil, fmt.Errorf("a dry run sends no %s request", r.Method)
	}
}

// get answers a GET request. If the session has written the object, the response has the object as the session
// remembers it. Otherwise get sends the request to the API server.
func (t *transport) get(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/apis") {
		return t.kinds(r)
	}
	o, known := t.session.get(r.URL.Path)
	switch {
	case !known:
		return t.next.RoundTrip(r)
	case o.now == nil:
		return answer(r, http.StatusNotFound, notFound(r.URL.Path))
	case strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"):
		return answer(r, http.StatusOK, map[string]any{
			"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.now["metadata"],
		})
	default:
		return answer(r, http.StatusOK, o.now)
	}
}

// post handles a POST request, which creates an object. If the body has no object name, as in access reviews, post
// sends the request as a dry run and records nothing.
func (t *transport) post(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	want := decoded(body)
	name := nameOf(want)
	if name == "" {
		return t.send(r, body, nil)
	}
	path := r.URL.Path + "/" + name
	known, written := t.session.get(path)
	if written && known.now == nil && known.live != nil {
		return t.pretend(r, path, nil, want, "it is deleted and created again")
	}
	response, err := t.send(r, body, nil)
	if err != nil {
		return nil, err
	}
	why, err := t.settle(response, path, nil, false)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return t.pretend(r, path, nil, want, why)
	}
	return response, nil
}

// statusPath matches the path of the subresource status of an object. It does not match the path of an object that is
// called status: after the version, the path of an object has an even number of segments, such as its plural and its
// name.
var statusPath = regexp.MustCompile(`(/api/[^/]+|/apis/[^/]+/[^/]+)(/[^/]+/[^/]+)+/status$`)

// change handles a PUT or PATCH request, which replaces or patches an object or its status.
func (t *transport) change(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	path := r.URL.Path
	if statusPath.MatchString(path) {
		path = strings.TrimSuffix(path, "/status")
	}
	before, note, err := t.current(r, path)
	if err != nil {
		return nil, err
	}
	known, written := t.session.get(path)
	if !written {
		return t.changeLive(r, path, body, before)
	}
	want, err := wanted(r, path, body, before)
	if err != nil {
		return nil, err
	}
	if known.live == nil || note != "" {
		return t.pretend(r, path, before, want, note)
	}
	// The patch changes the object that the session remembers, but the API server has an older object. So the session
	// applies the patch itself, and sends the whole object.
	replacement, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	put := r.Clone(r.Context())
	put.Method = http.MethodPut
	put.Header.Set("Content-Type", "application/json")
	return t.changeLive(put, path, replacement, before)
}

// changeLive sends a PUT or PATCH request as a dry run, and records the result. The argument before is the object
// before the change, or nil if it does not exist. If the API server cannot check the change of an existing object,
// changeLive records the object that the change would make.
func (t *transport) changeLive(r *http.Request, path string, body []byte, before map[string]any) (*http.Response, error) {
	response, err := t.send(r, body, nil)
	if err != nil {
		return nil, err
	}
	why, err := t.settle(response, path, before, false)
	if err != nil {
		return nil, err
	}
	if why == "" || before == nil {
		return response, nil
	}
	want, err := wanted(r, path, body, before)
	if err != nil {
		return nil, err
	}
	return t.pretend(r, path, before, want, why)
}

// wanted returns the object that the API server would store for the PUT or PATCH request r with this body. The argument
// before is the existing object.
func wanted(r *http.Request, path string, body []byte, before map[string]any) (map[string]any, error) {
	if r.Method != http.MethodPatch {
		return decoded(body), nil
	}
	want, err := patched(before, body, r.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("dry run of a patch of %s: %w", path, err)
	}
	return want, nil
}

// settle reads the API server's response to a dry run of a write. If the API server could not check the write, the
// result is the reason. Otherwise the result is "", and settle records the write if the API server has accepted it. The
// body of the response can be read again.
func (t *transport) settle(response *http.Response, path string, before map[string]any, deletes bool) (why string, err error) {
	answered, err := replayable(response)
	if err != nil {
		return "", err
	}
	accepted := response.StatusCode/100 == 2
	if accepted && deletes {
		t.session.record(path, before, nil, "")
		return "", nil
	}
	why = t.unchecked(path, response.StatusCode, answered)
	if accepted && why == "" {
		t.session.record(path, before, decoded(answered), "")
	}
	return why, nil
}

// remove handles a DELETE request for one object.
func (t *transport) remove(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	before, note, err := t.current(r, r.URL.Path)
	if err != nil {
		return nil, err
	}
	if kind, _ := before["kind"].(string); strings.HasSuffix(kind, "List") && before["items"] != nil {
		return nil, errors.New("a dry run cannot delete a collection: " + r.URL.Path)
	}
	known, written := t.session.get(r.URL.Path)
	if written && (known.live == nil || known.now == nil) {
		if known.now == nil {
			return answer(r, http.StatusNotFound, notFound(r.URL.Path))
		}
		return t.pretend(r, r.URL.Path, before, nil, note)
	}
	if body, err = deletion(r.URL.Path, body, written); err != nil {
		return nil, err
	}
	response, err := t.send(r, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return nil, err
	}
	why, err := t.settle(response, r.URL.Path, before, true)
	if err != nil {
		return nil, err
	}
	if why == "" || before == nil {
		return response, nil
	}
	return t.pretend(r, r.URL.Path, before, nil, why)
}

// deletion returns body, the DeleteOptions of a request, with dryRun set. The query parameter dryRun is not sufficient,
// because the API server ignores the query if the body contains options. The argument written says whether the session
// has written the object at path. If so, deletion removes the preconditions, because they refer to the object that the
// session remembers, and the API server has another version of this object.
func deletion(path string, body []byte, written bool) ([]byte, error) {
	options := map[string]any{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, fmt.Errorf("the options of the deletion of %s are not JSON, so no dry run is possible: %w", path, err)
		}
	}
	options["kind"], options["apiVersion"], options["dryRun"] = "DeleteOptions", "v1", []string{"All"}
	if written {
		delete(options, "preconditions")
	}
	return json.Marshal(options)
}

// current returns the object at path: the one that the session remembers, with its note, or that of the API server if
// the session has not written it. If the object does not exist, o is nil.
func (t *transport) current(r *http.Request, path string) (o map[string]any, note string, err error) {
	if known, written := t.session.get(path); written {
		return known.now, known.note, nil
	}
	read := r.Clone(r.Context())
	read.Method, read.Body, read.ContentLength, read.GetBody = http.MethodGet, nil, 0, nil
	read.URL.Path, read.URL.RawPath, read.URL.RawQuery = path, "", ""
	read.Header.Set("Accept", "application/json")
	read.Header.Del("Content-Type")
	response, err := t.next.RoundTrip(read)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, "", err
	case response.StatusCode == http.StatusNotFound:
		return nil, "", nil
	case response.StatusCode/100 != 2:
		return nil, "", fmt.Errorf("read %s before a dry run: %s", path, response.Status)
	default:
		return decoded(body), "", nil
	}
}

// send sends the write r with this body to the API server as a dry run. The fields of header replace those of r.
func (t *transport) send(r *http.Request, body []byte, header http.Header) (*http.Response, error) {
	sent := r.Clone(r.Context())
	query := sent.URL.Query()
	query.Set("dryRun", "All")
	sent.URL.RawQuery = query.Encode()
	maps.Copy(sent.Header, header)
	sent.Body = io.NopCloser(bytes.NewReader(body))
	sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	sent.ContentLength = int64(len(body))
	return t.next.RoundTrip(sent)
}

// pretend answers the write r without a request to the API server. The response says that the API server has stored the
// new object or, if the argument now is nil, that it has deleted the object. pretend records the write to the object at
// path, with a note, see [Session.record].
func (t *transport) pretend(r *http.Request, path string, before, now map[string]any, note string) (*http.Response, error) {
	t.session.record(path, before, now, note)
	switch {
	case now == nil:
		return answer(r, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	case r.Method == http.MethodPost:
		return answer(r, http.StatusCreated, now)
	default:
		return answer(r, http.StatusOK, now)
	}
}

// unchecked returns the reason why the API server could not check a write in a dry run: the write needs another write
// of the session, or a webhook does not support dry runs. status and body are those of the response. If there is no
// such reason, unchecked returns "".
//
// If the session has changed the CustomResourceDefinition of the object's kind, the API server still uses the old
// schema. It can reject an object that is valid, and it removes new fields from an object that it accepts.
func (t *transport) unchecked(path string, status int, body []byte) string {
	switch status {
	case http.StatusOK, http.StatusCreated, http.StatusUnprocessableEntity:
		if kind := t.session.changedKind(path); kind != "" {
			return "the CustomResourceDefinition of its kind " + kind + " is changed by the same plan"
		}
	case http.StatusNotFound:
		if namespace := t.newNamespace(path); namespace != "" {
			return "its Namespace " + namespace + " is created by the same plan"
		}
		if kind := t.session.newKind(path); kind != "" {
			return "its kind " + kind + " is defined by a CustomResourceDefinition of the same plan"
		}
	case http.StatusBadRequest:
		message, _ := decoded(body)["message"].(string)
		if strings.Contains(message, "does not support dry run") {
			return message
		}
	}
	return ""
}

// newNamespace returns the name of the namespace in path if the session has created this namespace. Otherwise it
// returns "".
func (t *transport) newNamespace(path string) string {
	_, rest, found := strings.Cut(path, "/namespaces/")
	name, _, within := strings.Cut(rest, "/")
	if !found || !within {
		return ""
	}
	base, _, _ := strings.Cut(path, "/api")
	if o, known := t.session.get(base + "/api/v1/namespaces/" + name); known && o.live == nil && o.now != nil {
		return name
	}
	return ""
}

// readBody returns the body of a request, and closes it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// replayable reads and returns the body of a response, and replaces it, so that it can be read again.
func replayable(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// decoded returns the decoded JSON object in text. decoded returns nil if text is not a JSON object.
func decoded(text []byte) map[string]any {
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON(text); err == nil {
		return o.Object
	}
	var any map[string]any
	if err := json.Unmarshal(text, &any); err != nil {
		return nil
	}
	return any
}

func nameOf(o map[string]any) string {
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// answer returns a response to r with the given status and body, without a request to the API server.
func answer(r *http.Request, status int, body map[string]any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)), Request: r,
	}, nil
}

func notFound(path string) map[string]any {
	return map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound,
		"message": path + " not found", "details": map[string]any{},
	}
}

// Present makes the session treat o as an existing object at the URL path, even if the API server does not have it.
// [Session.Take] does not return it as a change.
func (s *Session) Present(path string, o map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string]*object{}
	}
	s.objects[path] = &object{live: o, now: o}
}
