package dryrun_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"addon-operator/internal/dryrun"
)

// An apiServer is a model of an API server. It answers dry runs as the API server does, without storing anything. A
// write that is not a dry run fails the test.
type apiServer struct {
	t       *testing.T
	objects map[string]map[string]any // by path
	refuses map[string]string         // error messages by path; writes to these paths fail with status 400
	strict  bool                      // writes in the group old.example.com fail with status 422
	sent    []string                  // the received writes
}

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]any
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &body); err != nil {
				return nil, err
			}
		}
	}
	path := r.URL.Path
	known := s.objects[path]
	if r.Method == http.MethodGet {
		if known == nil {
			return respond(http.StatusNotFound, status("not found")), nil
		}
		return respond(http.StatusOK, known), nil
	}
	if options, _ := body["dryRun"].([]any); r.URL.Query().Get("dryRun") != "All" || r.Method == http.MethodDelete && len(options) != 1 {
		s.t.Errorf("%s %s is no dry run", r.Method, path)
	}
	s.sent = append(s.sent, r.Method+" "+path)
	if why := s.refuses[path]; why != "" {
		return respond(http.StatusBadRequest, status(why)), nil
	}
	if strings.Contains(path, "/apis/old.example.com/") && r.Method != http.MethodDelete {
		if s.strict {
			return respond(http.StatusUnprocessableEntity, status("the value is not supported")), nil
		}
		delete(body, "data") // the schemas of this group have no such field
	}
	if body["preconditions"] != nil && known["preconditions"] == nil {
		return respond(http.StatusConflict, status("the UID is another")), nil
	}
	switch r.Method {
	case http.MethodPost:
		_, rest, _ := strings.Cut(path, "/namespaces/")
		namespace, _, within := strings.Cut(rest, "/")
		if within && s.objects["/api/v1/namespaces/"+namespace] == nil || strings.Contains(path, "/apis/new.example.com/") {
			return respond(http.StatusNotFound, status("not found")), nil
		}
		return respond(http.StatusCreated, withDefault(body)), nil
	case http.MethodPut:
		return respond(http.StatusOK, withDefault(body)), nil
	case http.MethodDelete:
		if known == nil {
			return respond(http.StatusNotFound, status("not found")), nil
		}
		return respond(http.StatusOK, status("")), nil
	default: // a merge patch; the model applies only its field data
		merged := copied(known)
		merged["data"] = body["data"]
		return respond(http.StatusOK, withDefault(merged)), nil
	}
}

// withDefault returns a copy of o with a default value and a resource version set, as the API server does.
func withDefault(o map[string]any) map[string]any {
	o = copied(o)
	o["immutable"] = false
	metadata, _ := o["metadata"].(map[string]any)
	metadata["resourceVersion"] = "9"
	return o
}

func copied(o map[string]any) (c map[string]any) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(err) // never happens, because the objects of the tests can be encoded as JSON
	}
	return c
}

func status(message string) map[string]any {
	return map[string]any{"kind": "Status", "apiVersion": "v1", "message": message}
}

func respond(code int, body map[string]any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}
}

// A fixture has a session, and sends requests as one of its clients.
type fixture struct {
	t       *testing.T
	server  *apiServer
	session *dryrun.Session
	client  http.RoundTripper
}

func newFixture(t *testing.T, objects ...map[string]any) *fixture {
	t.Helper()
	f := &fixture{t: t, server: &apiServer{t: t, objects: map[string]map[string]any{}, refuses: map[string]string{}}, session: new(dryrun.Session)}
	f.server.objects["/api/v1/namespaces/ns"] = map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "ns"}}
	for _, o := range objects {
		metadata, _ := o["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		f.server.objects[maps+"/"+name] = o
	}
	var config rest.Config
	f.session.Wrap(&config)
	f.client = config.WrapTransport(f.server)
	return f
}

const maps = "/api/v1/namespaces/ns/configmaps"

func configMap(name, value string) map[string]any {
	return map[string]any{
		"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": name, "namespace": "ns"}, "data": map[string]any{"key": value},
		"immutable": false,
	}
}

// send sends a request, and returns the HTTP status and the object of the response.
func (f *fixture) send(method, path, contentType string, body any) (int, map[string]any) {
	f.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(f.t.Context(), method, "https://server"+path, reader)
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := f.client.RoundTrip(request)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		f.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// expect sends a request, checks the HTTP status of the response, and returns its object.
func (f *fixture) expect(code int, method, path string, body any) map[string]any {
	f.t.Helper()
	got, answer := f.send(method, path, "application/json", body)
	if got != code {
		f.t.Errorf("%s %s: status %d, want %d: %v", method, path, got, code, answer)
	}
	return answer
}

func valueOf(o map[string]any) any {
	data, _ := o["data"].(map[string]any)
	return data["key"]
}

// changes checks that Take returns the expected changes. Each element of want has the form "before → after (note)".
func (f *fixture) changes(want ...string) {
	f.t.Helper()
	var got []string
	for _, c := range f.session.Take() {
		before, after := "none", "none"
		if c.Before != nil {
			before = c.Before.GetName() + "=" + text(valueOf(c.Before.Object))
		}
		if c.After != nil {
			after = c.After.GetName() + "=" + text(valueOf(c.After.Object))
		}
		line := before + " → " + after
		if c.Note != "" {
			line += " (" + c.Note + ")"
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func TestAClientFindsItsOwnWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("old", "1"))
	created := f.expect(http.StatusCreated, http.MethodPost, maps, configMap("new", "1"))
	if created["immutable"] != false {
		t.Errorf("the response lacks what the API server sets: %v", created)
	}
	if o := f.expect(http.StatusOK, http.MethodGet, maps+"/new", nil); valueOf(o) != "1" {
		t.Errorf("read %v", o)
	}
	f.expect(http.StatusOK, http.MethodPut, maps+"/old", configMap("old", "2"))
	f.expect(http.StatusOK, http.MethodDelete, maps+"/old", nil)
	f.expect(http.StatusNotFound, http.MethodGet, maps+"/old", nil)
	f.expect(http.StatusNotFound, http.MethodDelete, maps+"/old", nil)
	f.changes("none → new=1", "old=1 → old=2", "old=2 → none")
	f.changes()
	if len(f.server.objects) != 2 || valueOf(f.server.objects[maps+"/old"]) != "1" {
		t.Errorf("the API server has %v", f.server.objects)
	}
}

func TestAWriteThatChangesNothingIsNoChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("old", "1"))
	f.expect(http.StatusOK, http.MethodPut, maps+"/old", configMap("old", "1"))
	f.changes()
}

// TestAnObjectCalledStatusIsChanged writes an object whose path ends like the path of the subresource status, and the
// subresource status of the same object.
func TestAnObjectCalledStatusIsChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("status", "1"), configMap("other", "1"))
	f.server.objects[maps] = map[string]any{"kind": "ConfigMapList", "apiVersion": "v1", "items": []any{}}
	f.expect(http.StatusOK, http.MethodPut, maps+"/status", configMap("status", "2"))
	f.expect(http.StatusOK, http.MethodPut, maps+"/status/status", configMap("status", "3"))
	f.expect(http.StatusOK, http.MethodPut, maps+"/other/status", configMap("other", "2"))
	if o := f.expect(http.StatusOK, http.MethodGet, maps+"/status", nil); valueOf(o) != "3" {
		t.Errorf("read %v", o)
	}
	f.changes("status=1 → status=2", "status=2 → status=3", "other=1 → other=2")
}

// TestPatchesAreRelativeToTheSession patches an object that the session has changed. The patch must apply to the
// changed object, which the API server does not have.
func TestPatchesAreRelativeToTheSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("old", "1"))
	patch := func(value string) map[string]any { return map[string]any{"data": map[string]any{"key": value}} }
	for _, value := range []string{"2", "3"} {
		if code, o := f.send(http.MethodPatch, maps+"/old", "application/merge-patch+json", patch(value)); code != http.StatusOK || valueOf(o) != value {
			t.Errorf("patched to %v, status %d", o, code)
		}
	}
	f.changes("old=1 → old=2", "old=2 → old=3")
	if diff := cmp.Diff([]string{"PATCH " + maps + "/old", "PUT " + maps + "/old"}, f.server.sent); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	// A strategic merge patch must keep the keys of data that are not in the patch.
	two := map[string]any{"data": map[string]any{"other": "4"}}
	if code, o := f.send(http.MethodPatch, maps+"/old", "application/strategic-merge-patch+json", two); code != http.StatusOK || valueOf(o) != "3" {
		t.Errorf("patched to %v, status %d", o, code)
	}
}

func TestAnObjectThatIsDeletedAndCreatedAgainIsMarked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("old", "1"))
	f.expect(http.StatusOK, http.MethodDelete, maps+"/old", nil)
	f.expect(http.StatusCreated, http.MethodPost, maps, configMap("old", "2"))
	f.changes("old=1 → none", "none → old=2 (it is deleted and created again)")
}

// TestPreconditionsAreAboutTheSession deletes objects with a precondition on the UID. The objects in the API server
// have other UIDs. The API server must reject the deletion of an object that the session has not changed. If the
// session has changed the object, the session must remove the precondition.
func TestPreconditionsAreAboutTheSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("old", "1"), configMap("other", "1"))
	options := map[string]any{"preconditions": map[string]any{"uid": "of the session"}}
	f.expect(http.StatusConflict, http.MethodDelete, maps+"/other", options)
	f.expect(http.StatusOK, http.MethodPut, maps+"/old", configMap("old", "2"))
	f.expect(http.StatusOK, http.MethodDelete, maps+"/old", options)
	f.changes("old=1 → old=2", "old=2 → none")
}

func TestObjectsOfANamespaceOrKindOfTheSessionAreMarked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expect(http.StatusNotFound, http.MethodPost, "/api/v1/namespaces/other/configmaps", configMap("a", "1"))
	f.changes()
	f.expect(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "other"}})
	f.expect(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/other/configmaps", configMap("a", "1"))
	f.expect(http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": map[string]any{"name": "things.new.example.com"},
		"spec": map[string]any{
			"group": "new.example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Thing", "plural": "things"},
			"versions": []any{map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v0", "served": false}},
		},
	})
	thing := map[string]any{"kind": "Thing", "apiVersion": "new.example.com/v1", "metadata": map[string]any{"name": "b"}}
	f.expect(http.StatusCreated, http.MethodPost, "/apis/new.example.com/v1/namespaces/ns/things", thing)
	f.expect(http.StatusNotFound, http.MethodPost, "/apis/new.example.com/v0/namespaces/ns/things", thing)
	f.changes("none → other=", "none → a=1 (its Namespace other is created by the same plan)", "none → things.new.example.com=",
		"none → b= (its kind Thing is defined by a CustomResourceDefinition of the same plan)")
}

// TestObjectsOfAKindThatTheSessionChangesAreMarked writes objects of a kind whose schema in the API server lacks the
// field data. After the session has changed the schema, the session must not use this schema.
func TestObjectsOfAKindThatTheSessionChangesAreMarked(t *testing.T) {
	t.Parallel()
	const things, changed = "/apis/old.example.com/v1/namespaces/ns/things", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.old.example.com"
	definition := func(label, schema string) map[string]any {
		return map[string]any{
			"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "immutable": false,
			"metadata": map[string]any{"name": "things.old.example.com", "labels": map[string]any{"a": label}},
			"spec": map[string]any{
				"group": "old.example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Thing", "plural": "things"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "schema": schema}},
			},
		}
	}
	thing := func(name, value string) map[string]any {
		o := configMap(name, value)
		o["kind"], o["apiVersion"] = "Thing", "old.example.com/v1"
		return o
	}
	f := newFixture(t)
	f.server.objects[changed] = definition("1", "old")
	f.server.objects[things+"/a"], f.server.objects[things+"/b"] = thing("a", ""), thing("b", "")
	f.expect(http.StatusOK, http.MethodPut, changed, definition("2", "old"))
	f.expect(http.StatusCreated, http.MethodPost, things, thing("c", "1"))
	f.changes("things.old.example.com= → things.old.example.com=", "none → c=")
	f.expect(http.StatusOK, http.MethodPut, changed, definition("2", "new"))
	f.expect(http.StatusCreated, http.MethodPost, things, thing("d", "1"))
	f.server.strict = true
	f.expect(http.StatusCreated, http.MethodPost, things, thing("e", "1"))
	f.expect(http.StatusOK, http.MethodPut, things+"/a", thing("a", "1"))
	f.expect(http.StatusOK, http.MethodDelete, things+"/b", nil)
	f.server.refuses[things] = "the object is refused"
	f.expect(http.StatusBadRequest, http.MethodPost, things, thing("f", "1"))
	const note = " (the CustomResourceDefinition of its kind Thing is changed by the same plan)"
	f.changes("things.old.example.com= → things.old.example.com=", "none → d=1"+note, "none → e=1"+note, "a= → a=1"+note, "b= → none")
}

func TestARefusedWriteIsNoChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, configMap("old", "1"))
	f.server.refuses[maps+"/old"] = "the field is immutable"
	f.expect(http.StatusBadRequest, http.MethodPut, maps+"/old", configMap("old", "2"))
	f.changes()
	f.server.refuses[maps+"/old"] = "the webhook does not support dry run"
	f.expect(http.StatusOK, http.MethodPut, maps+"/old", configMap("old", "2"))
	f.changes("old=1 → old=2 (the webhook does not support dry run)")
}

func TestRequestsThatCannotBeDryRunsAreNotSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.objects[maps] = map[string]any{"kind": "ConfigMapList", "apiVersion": "v1", "items": []any{}}
	for method, path := range map[string]string{http.MethodDelete: maps, "CONNECT": maps + "/a"} {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://server"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := f.client.RoundTrip(request); err == nil {
			response.Body.Close()
			t.Errorf("%s %s is answered", method, path)
		}
	}
	if len(f.server.sent) > 0 {
		t.Errorf("sent %v", f.server.sent)
	}
}

func TestPresentIsNoChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.session.Present(maps+"/a", configMap("a", "1"))
	if o := f.expect(http.StatusOK, http.MethodGet, maps+"/a", nil); valueOf(o) != "1" {
		t.Errorf("read %v", o)
	}
	f.changes()
}

func TestContentLeavesOutWhatTheAPIServerSets(t *testing.T) {
	t.Parallel()
	o := configMap("a", "1")
	o["status"] = "x"
	metadata, _ := o["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = "1", "2"
	if diff := cmp.Diff(configMap("a", "1"), dryrun.Content(o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if metadata["uid"] != "1" || o["status"] != "x" || dryrun.Content(nil) != nil {
		t.Error("the object was changed")
	}
}
