package operation

import (
	"encoding/json"
	"slices"
	"strings"
)

// Type is the type of an operation.
type Type string

// The types of operations, with the words that hooks write.
const (
	// Create creates an object. If the object exists already, the operation fails with a final
	// error.
	Create Type = "Create"
	// CreateOrUpdate creates an object. If the object exists, its fields are merged into the
	// existing object.
	CreateOrUpdate Type = "CreateOrUpdate"
	// CreateIfNotExists creates an object. If the object exists, the operation does nothing.
	CreateIfNotExists Type = "CreateIfNotExists"
	// Delete deletes an object in the foreground, which means after its dependents, and waits until
	// the object no longer exists.
	Delete Type = "Delete"
	// DeleteInBackground deletes an object. The garbage collector of the cluster deletes the
	// dependents of the object afterwards.
	DeleteInBackground Type = "DeleteInBackground"
	// DeleteNonCascading deletes an object and keeps its dependents.
	DeleteNonCascading Type = "DeleteNonCascading"
	// MergePatch changes an object by a JSON merge patch (RFC 7396).
	MergePatch Type = "MergePatch"
	// JSONPatch changes an object by a JSON patch (RFC 6902).
	JSONPatch Type = "JSONPatch"
	// JQPatch replaces an object with the result of a jq filter.
	JQPatch Type = "JQPatch"
)

// allTypes contains all types, in the order in which error messages list them.
var allTypes = []Type{
	Create, CreateOrUpdate, CreateIfNotExists, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch, JQPatch,
}

// Deletes reports whether t deletes an object.
func (t Type) Deletes() bool {
	return slices.Contains([]Type{Delete, DeleteInBackground, DeleteNonCascading}, t)
}

// creates reports whether an operation of type t creates an object.
func (t Type) creates() bool {
	return slices.Contains([]Type{Create, CreateOrUpdate, CreateIfNotExists}, t)
}

// Repeatable reports whether an operation of type t can be executed a second time without a change
// of the final result, if the operations after it are also executed again.
func (t Type) Repeatable() bool {
	return slices.Contains([]Type{CreateOrUpdate, CreateIfNotExists, MergePatch}, t)
}

// Operation is one requested operation on one object. An Operation that [Parse] returned is valid.
// An Operation can be stored as JSON and executed by another process.
type Operation struct {
	Type Type `json:"operation"`
	// APIVersion is the group/version of the kind. If APIVersion is empty, the kind is searched in
	// all groups.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is the name of a kind, its plural or its short name, in upper or lower case.
	Kind string `json:"kind"`
	// Namespace is ignored for a cluster-scoped kind.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the object. It is empty only for an object with metadata.generateName.
	Name string `json:"name,omitempty"`
	// Subresource is the subresource to patch, such as "status"; empty means the object itself.
	Subresource string `json:"subresource,omitempty"`

	// Object, MergePatch and JSONPatch contain JSON. At most one of these three fields is set,
	// depending on the type.
	Object     json.RawMessage `json:"object,omitempty"`
	MergePatch json.RawMessage `json:"mergePatch,omitempty"`
	JSONPatch  json.RawMessage `json:"jsonPatch,omitempty"`
	// JQFilter is a jq program.
	JQFilter string `json:"jqFilter,omitempty"`

	// If IgnoreMissingObject is true, a patch of an object that does not exist does nothing and
	// succeeds.
	IgnoreMissingObject bool `json:"ignoreMissingObject,omitempty"`
}

// String returns the operation for messages: type, kind and name, as in "JSONPatch
// Deployment/status prod/web". It contains no content of the object.
func (o Operation) String() string {
	var text strings.Builder
	text.WriteString(string(o.Type) + " " + o.Kind)
	if o.Subresource != "" {
		text.WriteString("/" + o.Subresource)
	}
	text.WriteString(" ")
	if o.Namespace != "" {
		text.WriteString(o.Namespace + "/")
	}
	if o.Name == "" {
		text.WriteString("(name made from metadata.generateName)")
	}
	text.WriteString(o.Name)
	return text.String()
}
