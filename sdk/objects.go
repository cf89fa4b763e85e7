package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Objects collects what the operator is to do to objects in the cluster when the run has succeeded, in this order. What
// is wrong with it fails the run.
type Objects struct {
	operations []operation
	errs       []error
}

// Ref names an object.
type Ref struct {
	// APIVersion may be empty where the kind is clear without.
	APIVersion string
	// Kind is a kind, a plural or a short name, in any case.
	Kind string
	// Namespace is empty for what is in none.
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
	// From is for move and copy, Value for add, replace and test.
	From  string
	Value any
}

// MarshalJSON writes what the operation has, and null for a value that is nil.
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

// operation is one document of the file that KUBERNETES_PATCH_PATH names.
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

// Option is a manner of doing a patch.
type Option func(*operation)

// Subresource has a patch change that part of the object, such as /status.
func Subresource(name string) Option { return func(o *operation) { o.Subresource = name } }

// IgnoreMissing has a patch of an object that is not there succeed.
func IgnoreMissing() Option { return func(o *operation) { o.IgnoreMissing = true } }

// Create creates an object, which must not exist.
func (o *Objects) Create(object any) { o.object("Create", object) }

// CreateOrUpdate creates an object, or merges it into the one that exists.
func (o *Objects) CreateOrUpdate(object any) { o.object("CreateOrUpdate", object) }

// CreateIfNotExists creates an object, or leaves the one that exists as it is.
func (o *Objects) CreateIfNotExists(object any) { o.object("CreateIfNotExists", object) }

// Delete deletes an object after all that belongs to it, and waits until it is gone. One that is not there is fine.
func (o *Objects) Delete(ref Ref) { o.add("Delete", ref, operation{}) }

// DeleteInBackground deletes an object; what belongs to it follows.
func (o *Objects) DeleteInBackground(ref Ref) { o.add("DeleteInBackground", ref, operation{}) }

// DeleteNonCascading deletes an object and leaves what belongs to it.
func (o *Objects) DeleteNonCascading(ref Ref) { o.add("DeleteNonCascading", ref, operation{}) }

// MergePatch changes an object by a JSON merge patch (RFC 7396): what it looks like as JSON counts.
func (o *Objects) MergePatch(ref Ref, patch any, options ...Option) {
	o.add("MergePatch", ref, operation{MergePatch: patch}, options...)
}

// JSONPatch changes an object by operations.
func (o *Objects) JSONPatch(ref Ref, patch []Change, options ...Option) {
	o.add("JSONPatch", ref, operation{JSONPatch: patch}, options...)
}

// JQPatch changes an object into what a jq filter makes of it.
func (o *Objects) JQPatch(ref Ref, filter string, options ...Option) {
	o.add("JQPatch", ref, operation{JQFilter: filter}, options...)
}

func (o *Objects) object(name string, object any) {
	tree, err := plain(object)
	fields, isObject := tree.(map[string]any)
	switch {
	case err != nil:
	case !isObject:
		err = errors.New("it is no object")
	case fields["kind"] == nil || fields["apiVersion"] == nil:
		err = errors.New("it has no kind or no apiVersion; set TypeMeta where it is a struct")
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

// output returns the operations.
func (o *Objects) output() (variable string, content []byte, err error) {
	const file = "KUBERNETES_PATCH_PATH"
	if err := errors.Join(o.errs...); err != nil {
		return file, nil, err
	}
	content, err = lines(o.operations)
	return file, content, err
}
