package simulate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// A resource is one kind that the model of the API server serves.
type resource struct {
	path       string // URL path of the group and version
	plural     string
	kind       string
	namespaced bool
	typed      any // Go type of the kind, which strategic merge patches need; nil if they are not supported
}

var resources = []resource{
	{"/api/v1", "namespaces", "Namespace", false, corev1.Namespace{}},
	{"/api/v1", "configmaps", "ConfigMap", true, corev1.ConfigMap{}},
	{"/api/v1", "secrets", "Secret", true, corev1.Secret{}},
	{"/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", false, nil},
	{"/apis/apiregistration.k8s.io/v1", "apiservices", "APIService", false, nil},
	{"/apis/coordination.k8s.io/v1", "leases", "Lease", true, coordinationv1.Lease{}},
}

func (r *resource) apiVersion() string {
	return strings.TrimPrefix(strings.TrimPrefix(r.path, "/apis/"), "/api/")
}

// An object is one version of a Kubernetes object.
type object struct {
	at      address
	version int
	uid     string
	content map[string]any
	text    []byte
}

// An address identifies an object. resource is the plural name of its resource.
type address struct{ resource, namespace, name string }

func (a address) String() string { return strings.TrimLeft(a.resource+" "+a.namespace+"/"+a.name, " ") }

// A change is one entry in the log of an apiServer. before is nil if the object was added.
type change struct {
	what          string // ADDED, MODIFIED or DELETED
	before, after *object
	version       int
}

// An apiServer is a model of an API server and its database. It has the objects with their resource versions, and a log
// of their changes. Watches read the log, and the log can be compacted.
type apiServer struct {
	objects   map[address]*object
	log       []change
	version   int
	compacted int // a watch from an earlier version than this one is rejected
	uids      int
	changed   chan struct{} // closed and replaced by a new channel at each change
}

func newAPIServer() *apiServer {
	return &apiServer{objects: map[address]*object{}, version: 100, compacted: 100, changed: make(chan struct{})}
}

// A status is the response of the model to a rejected request.
type status struct {
	code    int
	reason  metav1.StatusReason
	message string
	causes  []metav1.StatusCause
	of      address // the requested object; the zero value if the request names no object
}

func (s *status) Error() string { return s.message }

func refuse(code int, reason metav1.StatusReason, format string, args ...any) *status {
	return &status{code: code, reason: reason, message: fmt.Sprintf(format, args...)}
}

// commit stores content as the object with this address, and gives it a new resource version. It logs the change and
// returns the new state of the object. If content is nil, commit deletes the object.
func (s *apiServer) commit(at address, content map[string]any) *object {
	before := s.objects[at]
	s.version++
	if content == nil {
		gone := *before
		gone.version = s.version
		gone.content = cloneOf(before.content)
		metadataOf(gone.content)["resourceVersion"] = strconv.Itoa(s.version)
		gone.text = marshal(gone.content)
		delete(s.objects, at)
		s.append(change{"DELETED", before, &gone, s.version})
		return &gone
	}
	metadata := metadataOf(content)
	after := &object{at: at, version: s.version, content: content}
	what := "MODIFIED"
	if before == nil {
		what = "ADDED"
		s.uids++
		after.uid = fmt.Sprintf("uid-%d", s.uids)
		metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	} else {
		after.uid = before.uid
		metadata["creationTimestamp"] = metadataOf(before.content)["creationTimestamp"]
	}
	metadata["uid"], metadata["resourceVersion"] = after.uid, strconv.Itoa(s.version)
	after.text = marshal(content)
	s.objects[at] = after
	s.append(change{what, before, after, s.version})
	return after
}

func (s *apiServer) append(c change) {
	s.log = append(s.log, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact deletes all changes in the log, so that a watch from an earlier version is rejected.
func (s *apiServer) compact() {
	s.log, s.compacted = nil, s.version
}

// put creates or replaces an object, as a user does with kubectl.
func (s *apiServer) put(at address, labels map[string]string, data map[string]string) {
	content := map[string]any{
		"apiVersion": "v1", "kind": kindOf(at.resource),
		"metadata": map[string]any{"name": at.name, "labels": anyOf(labels)},
	}
	if at.namespace != "" {
		metadataOf(content)["namespace"] = at.namespace
	}
	if data != nil {
		content["data"] = anyOf(data)
	}
	s.commit(at, content)
}

func kindOf(plural string) string {
	i := slices.IndexFunc(resources, func(r resource) bool { return r.plural == plural })
	return resources[i].kind
}

func anyOf(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func metadataOf(content map[string]any) map[string]any {
	m, ok := content["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		content["metadata"] = m
	}
	return m
}

func cloneOf(content map[string]any) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(marshal(content), &out); err != nil {
		panic(err)
	}
	return out
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// A call is a parsed request to the API server.
type call struct {
	method   string
	resource *resource
	at       address
	query    url.Values
	metadata bool // the response must have only the metadata of objects
	kind     string
	body     []byte
	byLabel  labels.Selector
	byField  fields.Selector
}

// parse parses a request for objects. parse returns an error if the model serves no such path.
func parse(r *http.Request) (*call, error) {
	for i := range resources {
		res := &resources[i]
		rest, ok := strings.CutPrefix(r.URL.Path, res.path+"/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		namespace := ""
		if parts[0] == "namespaces" && len(parts) > 2 {
			namespace, parts = parts[1], parts[2:]
		}
		if parts[0] != res.plural || len(parts) > 2 {
			continue
		}
		c := &call{method: r.Method, resource: res, query: r.URL.Query(), kind: r.Header.Get("Content-Type")}
		c.at = address{resource: res.plural, namespace: namespace}
		if len(parts) == 2 {
			c.at.name = parts[1]
		}
		if err := c.parseSelectors(); err != nil {
			return nil, err
		}
		c.metadata = strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
		if r.Body != nil {
			var err error
			if c.body, err = io.ReadAll(r.Body); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
	return nil, refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource %s", r.URL.Path)
}

func (c *call) watches() bool { return c.query.Get("watch") == "true" || c.query.Get("watch") == "1" }

func (c *call) writes() bool { return c.method != http.MethodGet }

func (c *call) String() string {
	text := c.method
	if c.watches() {
		text = "WATCH"
	}
	text += " " + strings.TrimSuffix(c.at.String(), "/")
	if selector := c.query.Get("labelSelector"); selector != "" {
		text += " with " + selector
	}
	return text
}

// serve executes a call, and returns the HTTP status and the body of the response.
func (s *apiServer) serve(c *call) (int, []byte, error) {
	switch {
	case c.method == http.MethodGet && c.at.name == "":
		text, err := s.list(c)
		return http.StatusOK, text, err
	case c.method == http.MethodGet:
		o, err := s.find(c)
		return http.StatusOK, c.show(o), err
	case c.method == http.MethodPost:
		o, err := s.create(c)
		return http.StatusCreated, c.show(o), err
	case c.method == http.MethodPut, c.method == http.MethodPatch:
		o, err := s.change(c)
		return http.StatusOK, c.show(o), err
	case c.method == http.MethodDelete && c.at.name != "":
		o, err := s.remove(c)
		return http.StatusOK, c.show(o), err
	}
	return 0, nil, refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s is not modelled", c)
}

func (c *call) show(o *object) []byte {
	if o == nil {
		return nil
	}
	if c.metadata {
		return partial(o)
	}
	return o.text
}

// partial returns only the metadata of an object.
func partial(o *object) []byte {
	return marshal(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.content["metadata"]})
}

func (s *apiServer) find(c *call) (*object, error) {
	if o := s.objects[c.at]; o != nil {
		return o, nil
	}
	refused := refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", c.at.resource, c.at.name)
	refused.of = c.at
	return nil, refused
}

// parseSelectors parses the label and field selectors in the query of c, for the method selects.
func (c *call) parseSelectors() (err error) {
	if c.byLabel, err = labels.Parse(c.query.Get("labelSelector")); err == nil {
		c.byField, err = fields.ParseSelector(c.query.Get("fieldSelector"))
	}
	if err != nil {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	return nil
}

// selects reports whether o has the resource, the namespace, the labels and the fields that c selects. selects returns
// false if o is nil.
func (c *call) selects(o *object) bool {
	if o == nil || o.at.resource != c.at.resource || c.at.namespace != "" && o.at.namespace != c.at.namespace {
		return false
	}
	of, _ := o.content["type"].(string)
	set := labels.Set{}
	own, _ := metadataOf(o.content)["labels"].(map[string]any)
	for k, v := range own {
		set[k], _ = v.(string)
	}
	return c.byLabel.Matches(set) && c.byField.Matches(fields.Set{"metadata.name": o.at.name, "metadata.namespace": o.at.namespace, "type": of})
}

func (s *apiServer) list(c *call) ([]byte, error) {
	if asked, err := strconv.Atoi(c.query.Get("resourceVersion")); err == nil && asked > s.version {
		refused := refuse(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version: %d, current: %d", asked, s.version)
		refused.causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		return nil, refused
	}
	var items [][]byte
	for _, at := range s.addresses() {
		if o := s.objects[at]; at.resource == c.at.resource && c.selects(o) {
			items = append(items, c.show(o))
		}
	}
	kind, apiVersion := c.resource.kind+"List", c.resource.apiVersion()
	if c.metadata {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return slices.Concat(fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kind, apiVersion, s.version),
		bytes.Join(items, []byte(",")), []byte("]}")), nil
}

// addresses returns the addresses of all objects, sorted.
func (s *apiServer) addresses() []address {
	return slices.SortedFunc(maps.Keys(s.objects), func(a, b address) int { return strings.Compare(a.String(), b.String()) })
}

func (s *apiServer) create(c *call) (*object, error) {
	content, err := decode(c.body)
	if err != nil {
		return nil, err
	}
	at := c.at
	at.name, _ = metadataOf(content)["name"].(string)
	if at.name == "" {
		return nil, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "an object without a name is not modelled")
	}
	if s.objects[at] != nil {
		return nil, refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", at.resource, at.name)
	}
	if c.resource.namespaced {
		metadataOf(content)["namespace"] = at.namespace
	}
	own(content, c.query.Get("fieldManager"), "Update")
	return s.commit(at, content), nil
}

// own records manager as the last writer of an object. In the model, managedFields has only this entry, and the entry
// lists no fields.
func own(content map[string]any, manager, operation string) {
	if manager != "" {
		metadataOf(content)["managedFields"] = []any{map[string]any{
			"manager": manager, "operation": operation, "apiVersion": "v1", "time": time.Now().UTC().Format(time.RFC3339),
		}}
	}
}

// decode decodes an object from JSON or protobuf.
func decode(body []byte) (map[string]any, error) {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		var content map[string]any
		if err := json.Unmarshal(body, &content); err != nil {
			return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
		}
		return content, nil
	}
	typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	var content map[string]any
	if err := json.Unmarshal(marshal(typed), &content); err != nil {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	return content, nil
}

// change executes a PUT or a PATCH.
func (s *apiServer) change(c *call) (*object, error) {
	before, err := s.find(c)
	if err != nil {
		return nil, err
	}
	text := c.body
	if c.method == http.MethodPatch {
		if text, err = c.patched(before.text); err != nil {
			return nil, err
		}
	}
	content, err := decode(text)
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(content)
	if asked, _ := metadata["resourceVersion"].(string); asked != "" && asked != strconv.Itoa(before.version) {
		return nil, refuse(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified: it is at version %d, not %s", before.version, asked)
	}
	metadata["uid"], metadata["resourceVersion"] = before.uid, strconv.Itoa(before.version)
	if bytes.Equal(marshal(content), before.text) {
		return before, nil // nothing changes, so there is no new version
	}
	own(content, c.query.Get("fieldManager"), "Update")
	return s.commit(c.at, content), nil
}

func (c *call) patched(text []byte) (out []byte, err error) {
	switch types.PatchType(c.kind) {
	case types.MergePatchType:
		out, err = jsonpatch.MergePatch(text, c.body)
	case types.StrategicMergePatchType:
		out, err = strategicpatch.StrategicMergePatch(text, c.body, c.resource.typed)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(c.body); err == nil {
			out, err = patch.Apply(text)
		}
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "patch type %s is not modelled", c.kind)
	}
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "%v", err)
	}
	return out, nil
}

func (s *apiServer) remove(c *call) (*object, error) {
	o, err := s.find(c)
	if err != nil {
		return nil, err
	}
	var options metav1.DeleteOptions
	if len(c.body) > 0 {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.body, nil, &options); err != nil {
			if err := json.Unmarshal(c.body, &options); err != nil {
				return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
			}
		}
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && string(*p.UID) != o.uid || p.ResourceVersion != nil && *p.ResourceVersion != strconv.Itoa(o.version) {
			return nil, refuse(http.StatusConflict, metav1.StatusReasonConflict, "the precondition of the delete does not hold")
		}
	}
	return s.commit(c.at, nil), nil
}

// next returns the watch event of the first logged change that is newer than the version in after, and that the watch c
// selects. next returns nil if there is none. The result version is the version from which the watch must continue.
func (s *apiServer) next(c *call, after int) (frame []byte, version int, err error) {
	if after < s.compacted {
		return nil, 0, refuse(http.StatusGone, metav1.StatusReasonExpired, "too old resource version: %d (%d)", after, s.compacted)
	}
	start, _ := slices.BinarySearchFunc(s.log, after+1, func(c change, version int) int { return c.version - version })
	version = after
	for _, entry := range s.log[start:] {
		version = entry.version
		was, is := c.selects(entry.before), entry.what != "DELETED" && c.selects(entry.after)
		var what string
		switch {
		case is && !was:
			what = "ADDED"
		case is:
			what = "MODIFIED"
		case was:
			what = "DELETED"
		default:
			continue
		}
		return frameOf(what, c.show(entry.after)), version, nil
	}
	return nil, version, nil
}

// frameOf returns the frame of a watch event. object is the object as JSON.
func frameOf(what string, object []byte) []byte {
	return slices.Concat([]byte(`{"type":"`+what+`","object":`), object, []byte("}\n"))
}

// text returns the body of the response to a rejected request.
func (s *status) text() []byte {
	return marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: s.message, Reason: s.reason,
		Code: int32(s.code), Details: &metav1.StatusDetails{Name: s.of.name, Kind: s.of.resource, Causes: s.causes}, //nolint:gosec // code is an HTTP status
	})
}

// asStatus returns the status that err wraps. For any other error, it returns a status with code 500.
func asStatus(err error) *status {
	if refused, ok := errors.AsType[*status](err); ok {
		return refused
	}
	return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, "%v", err)
}

// discovery returns the response to a discovery request, which asks for the version or the served kinds. The second
// result is false if path belongs to another request.
func discovery(path string) (any, bool) {
	switch path {
	case "/version":
		return map[string]string{"major": "1", "minor": "35", "gitVersion": "v1.35.0"}, true
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}, true
	case "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, name := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io"} {
			v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/v1", Version: "v1"}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		return list, true
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, r := range resources {
		if r.path == path {
			list.GroupVersion = r.apiVersion()
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.plural, Kind: r.kind, Namespaced: r.namespaced, Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	return list, list.GroupVersion != ""
}
