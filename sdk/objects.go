package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Objects collects operations on objects in the cluster. After a successful run, the operator
// executes the operations in the order of the calls. If an operation is invalid, the run fails.
type Objects struct {
	operations []operation
	errs       []error
}

// Ref identifies an object.
type Ref struct {
	// APIVersion may be empty if only one API group has this kind.
	APIVersion string
	// Kind is the name of a kind, its plural or its short name, in upper or lower case.
	Kind string
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	Name      string
}

// String returns kind, namespace and name.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Change is one operation of a JSON patch (RFC 6902).
type Change struct {
	Op, Path string
	// From is used only by "move" and "copy". Value is used only by "add", "replace" and "test".
	From  string
	Value any
}

// MarshalJSON encodes the fields that the operation uses. A nil value is encoded as null.
func (c Change) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"op": c.Op, "path": c.Path}
	switch c.Op {
	case "move", "copy":
		fields["from"] = c.From
	case "add", "replace", "test":
		fields["value"] = c.Value
	}
	return json.Marshal(fields)
}

// operation is one document of the file whose path is in KUBERNETES_PATCH_PATH.
type operation struct {
	Operation     string `json:"operation"`
	APIVersion    string `json:"apiVersion,omitempty"`
	Kind          string `json:"kind,omitempty"`
	Namespace     string `json:"namespace,omitempty"`
	Name          string `json:"name,omitempty"`
	Subresource   string `json:"subresource,omitempty"`
	Object        any    `json:"object,omitempty"`
	JQFilter      string `json:"jqFilter,omitempty"`
	MergePatch    any    `json:"mergePatch,omitempty"`
	JSONPatch     any    `json:"jsonPatch,omitempty"`
	IgnoreMissing bool   `json:"ignoreMissingObject,omitempty"`
}

// Option modifies a patch.
type Option func(*operation)

// Subresource applies a patch to a subresource of the object, such as "/status".
func Subresource(name string) Option { return func(o *operation) { o.Subresource = name } }

// IgnoreMissing makes a patch succeed without effect if the object does not exist.
func IgnoreMissing() Option { return func(o *operation) { o.IgnoreMissing = true } }

// Create creates an object. If the object exists already, the operation fails.
func (o *Objects) Create(object any) { o.object("Create", object) }

// CreateOrUpdate creates an object. If an object with its name exists already, the fields of the
// argument are merged into the existing object.
func (o *Objects) CreateOrUpdate(object any) { o.object("CreateOrUpdate", object) }

// CreateIfNotExists creates an object. If an object with its name exists already, nothing happens.
func (o *Objects) CreateIfNotExists(object any) { o.object("CreateIfNotExists", object) }

// Delete deletes an object after its dependents. The operator waits until the object no longer
// exists. If it still exists after 20 s, the operation fails. If the object does not exist, nothing
// happens.
func (o *Objects) Delete(ref Ref) { o.add("Delete", ref, operation{}) }

// DeleteInBackground deletes an object. The dependents of the object are deleted afterwards. If the
// object does not exist, nothing happens.
func (o *Objects) DeleteInBackground(ref Ref) { o.add("DeleteInBackground", ref, operation{}) }

// DeleteNonCascading deletes an object and keeps its dependents. If the object does not exist, nothing
// happens.
func (o *Objects) DeleteNonCascading(ref Ref) { o.add("DeleteNonCascading", ref, operation{}) }

// MergePatch changes an object with a JSON merge patch (RFC 7396). The argument patch must be
// representable as JSON.
func (o *Objects) MergePatch(ref Ref, patch any, options ...Option) {
	o.add("MergePatch", ref, operation{MergePatch: patch}, options...)
}

// JSONPatch changes an object with a JSON patch.
func (o *Objects) JSONPatch(ref Ref, patch []Change, options ...Option) {
	o.add("JSONPatch", ref, operation{JSONPatch: patch}, options...)
}

// JQPatch replaces an object with the result of a jq filter.
func (o *Objects) JQPatch(ref Ref, filter string, options ...Option) {
	o.add("JQPatch", ref, operation{JQFilter: filter}, options...)
}

func (o *Objects) object(name string, object any) {
	tree, err := plain(object)
	fields, isObject := tree.(map[string]any)
	switch {
	case err != nil:
	case !isObject:
		err = errors.New("the value is not an object")
	case fields["kind"] == nil || fields["apiVersion"] == nil:
		err = errors.New("the object has no kind or no apiVersion; set the TypeMeta of a struct")
	}
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("%s: %w", name, err))
		return
	}
	o.operations = append(o.operations, operation{Operation: name, Object: tree})
}

func (o *Objects) add(name string, ref Ref, added operation, options ...Option) {
	added.Operation = name
	added.APIVersion, added.Kind, added.Namespace, added.Name = ref.APIVersion, ref.Kind, ref.Namespace, ref.Name
	for _, option := range options {
		option(&added)
	}
	var err error
	switch {
	case ref.Kind == "" || ref.Name == "":
		err = errors.New("a kind and a name are needed")
	case name == "MergePatch":
		added.MergePatch, err = plain(added.MergePatch)
	case name == "JSONPatch":
		added.JSONPatch, err = plain(added.JSONPatch)
	}
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("%s of %s: %w", name, ref, err))
		return
	}
	o.operations = append(o.operations, added)
}

// output returns the content of the file with the operations, and the environment variable with its
// path.
func (o *Objects) output() (variable string, content []byte, err error) {
	const file = "KUBERNETES_PATCH_PATH"
	if err := errors.Join(o.errs...); err != nil {
		return file, nil, err
	}
	content, err = lines(o.operations)
	return file, content, err
}
